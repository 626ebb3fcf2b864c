import type { FrameFiles } from '../../core/registry/files';
import type { Session } from '../../core/session/session';
import type { UpdatesFrame } from './frame';

export const kUpdatesFiles: FrameFiles<UpdatesFrame> = {
  arraysOf: ({ table, parameters, columns }) => [
    {
      name: 'updates',
      text: 'a row for each parameter, a column for each number',
      axes: [
        { name: 'parameter', labels: Array.from({ length: parameters }, (_, row) => row) },
        { name: 'column', labels: Array.from({ length: columns }, (_, column) => column) },
      ],
      shape: [parameters, columns],
      data: table.slice(),
    },
  ],
  factsOf: (session, frame) => ({
    parameters: namesOf(session, frame, 'parameters'),
    columns: namesOf(session, frame, 'columns'),
  }),
};

function namesOf(session: Session, frame: UpdatesFrame, of: 'parameters' | 'columns'): string {
  const point = session.run?.points.find(({ flag }) => flag === frame.query.point);
  return (point?.[of] ?? []).join(' ');
}
