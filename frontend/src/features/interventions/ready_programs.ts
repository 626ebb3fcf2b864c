import type { RunFacts } from '../../protocol/messages';
import { middleLayer } from './vocabulary';

/** A program of configs/interventions. The page contains its text. */
export interface ReadyProgram {
  readonly name: string;
  /** The first line, if it is a comment; else the name. */
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

/** The programs that an empty editor offers as buttons. */
export const kFirstPrograms: readonly ReadyProgram[] = [
  ...['steer', 'cap', 'project_out', 'scale', 'ablate_head', 'logit_attribution'],
].flatMap((name) => kReadyPrograms.find((each) => each.name === name) ?? []);

export function readyProgram(path: string, text: string): ReadyProgram {
  const name = path.replace(/^.*\//, '').replace(/\.tti$/, '');
  const title = /^\s*#\s*(.*\S)\s*(?:\n|$)/.exec(text)?.[1] ?? name;
  return { name, title, text };
}

/** The title before its colon: "Steer" of "Steer: add a direction to the residual stream". */
export function shortTitle({ title }: ReadyProgram): string {
  return title.replace(/:.*$/, '');
}

const kVector = 'evil';

/** The reason why a run cannot use the program; '' if the run can. */
export function lackOf({ text }: ReadyProgram, run: Pick<RunFacts, 'vectors'> | null): string {
  if (!text.includes(`vector("${kVector}")`) || run === null || run.vectors.length > 0) return '';
  return 'this run has no direction vectors: start it with --tensor-tracer-vectors';
}

type Model = RunFacts['model'];

/** The program with a vector of the run, the middle layer of its model, and its final norm. */
export function fittedText(
  { text }: ReadyProgram,
  run: Pick<RunFacts, 'vectors' | 'model'> | null,
): string {
  if (run === null) return text;
  const vector = run.vectors.includes(kVector) ? kVector : (run.vectors[0] ?? kVector);
  const ofRun = text.replaceAll(`"${kVector}"`, JSON.stringify(vector));
  return withNorm(atLayer(ofRun, middleLayer(run.model.num_layers)), run.model);
}

/** Replaces the layer of a program, which occurs in places, in rows of vectors and in comments. */
function atLayer(text: string, layer: number): string {
  const from = /\blayers\[(\d+)\]/.exec(text.replace(/^#.*$/gm, ''))?.[1];
  if (from === undefined) return text;
  return text
    .replaceAll(`layers[${from}]`, `layers[${layer}]`)
    .replace(new RegExp(`("\\))\\[${from}\\]`, 'g'), `$1[${layer}]`)
    .replace(new RegExp(`\\b(layer|row) ${from}\\b`, 'g'), `$1 ${layer}`);
}

/** RMSNorm does not subtract the mean. */
function withNorm(text: string, { normalization, norm_epsilon: epsilon }: Model): string {
  const centred = normalization === 'RMSNorm' ? '0.0' : '1.0';
  const ofNorm = text.replace(/^centred = 1\.0$/m, `centred = ${centred}`);
  return epsilon === undefined
    ? ofNorm
    : ofNorm.replace(/^epsilon = 1e-5$/m, `epsilon = ${epsilon}`);
}
