import type { ServerResponse } from 'node:http';
import { kRunId, pointNamed, stepFacts } from './data.ts';

/** What the history is read from. */
export interface Past {
  /** The newest step; all steps from 1 are kept. */
  readonly last: number;
  /** Records of a step, of one point or of one entry of it. */
  readonly recordsAt: (step: number, point: string, entry: string | null) => readonly Buffer[];
}

/** Answers GET /history and what lies below it, as docs/protocol.md says. */
export function answerHistory(url: URL, past: Past, response: ServerResponse): void {
  const query = url.searchParams;
  const number = (name: string, otherwise: number): number => Number(query.get(name) ?? otherwise);
  if (url.pathname === '/history/runs') {
    json(response, { runs: [] });
    return;
  }
  const first = Math.max(1, number('first', 1));
  const last = Math.min(past.last, number('last', past.last));
  const steps = Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i);
  const point = query.get('point') ?? '';
  if (url.pathname === '/history/events') {
    json(response, []);
  } else if (url.pathname === '/history') {
    json(response, { run: kRunId, first_step: 1, last_step: past.last });
  } else if (url.pathname === '/history/steps') {
    json(response, steps.slice(-number('limit', 2000)).map(stepFacts));
  } else if (pointNamed(point) === undefined) {
    response.writeHead(400).end('the run has no such trace point\n');
  } else {
    const parts = steps.flatMap((step) => past.recordsAt(step, point, query.get('entry')));
    response.setHeader('Content-Type', 'application/octet-stream');
    response.end(Buffer.concat(parts));
  }
}

function json(response: ServerResponse, value: unknown): void {
  response.setHeader('Content-Type', 'application/json');
  response.end(JSON.stringify(value));
}
