/** A program of configs/interventions: it comes with the page. */
export interface ReadyProgram {
  readonly name: string;
  /** The first line of the comment that it begins with. */
  readonly title: string;
  readonly text: string;
}

const kFiles: Readonly<Record<string, string>> = import.meta.glob(
  '../../../../configs/interventions/*.tti',
  { query: '?raw', import: 'default', eager: true },
);

export const kReadyPrograms: readonly ReadyProgram[] = Object.entries(kFiles)
  .map(([path, text]) => readyProgram(path, text))
  .sort((a, b) => a.title.localeCompare(b.title, 'en'));

export function readyProgram(path: string, text: string): ReadyProgram {
  const name = path.replace(/^.*\//, '').replace(/\.tti$/, '');
  const title = /^\s*#\s*(.*\S)\s*(?:\n|$)/.exec(text)?.[1] ?? name;
  return { name, title, text };
}
