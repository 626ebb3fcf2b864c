import { formatInteger, formatPlural } from '../../base/format';
import { isRecord } from '../../base/schema';
import type { Conditions, Parameter, Program, Site } from '../../protocol/interventions';
import type { Application, Counters } from './intervention_store';

/** The program of a draft, as it is sent: the text, or the graph if the text is a graph in JSON. */
export function programOf(text: string): unknown {
  if (!text.trimStart().startsWith('{')) return text;
  try {
    const graph: unknown = JSON.parse(text);
    return isRecord(graph) ? graph : text;
  } catch {
    // The trainer reports the error.
    return text;
  }
}

const kRuns: Readonly<Record<string, string>> = {
  everywhere: 'whole tensor on every rank',
  shards: 'on shards: each rank computes its part',
  gathered: 'gathered, computed as a whole, sharded again',
};

export function runsText({ runs = '' }: Site): string {
  return kRuns[runs] ?? runs;
}

export function placeText({ place, gradient }: Site): string {
  return gradient && !place.endsWith('.grad') ? `${place}.grad` : place;
}

const kPhases: Readonly<Record<string, string>> = {
  train: 'training',
  eval: 'evaluation',
  'train,eval': 'training and evaluation',
  'eval,train': 'training and evaluation',
  all: 'training, evaluation and every prompt set',
};

/** The conditions of a program, one text for each. */
export function whenWords(when: Conditions): readonly string[] {
  const member = (name: string): string => {
    const value = when[name];
    return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
  };
  const [phase, prompts, steps, every] = ['phase', 'prompts', 'steps', 'every'].map(member);
  const words = [];
  if (phase !== '' || prompts === '') words.push(kPhases[phase === '' ? 'train' : phase] ?? phase);
  if (prompts !== '') words.push(prompts === '*' ? 'every prompt set' : `prompts ${prompts}`);
  words.push(steps === '' ? 'all steps' : `steps ${steps}`);
  if (every !== '' && every !== '1') words.push(`every ${every} steps`);
  for (const name of ['layers', 'rows', 'tokens', 'positions']) {
    if (member(name) !== '') words.push(`${name} ${member(name)}`);
  }
  const text = when.token_text;
  if (typeof text === 'string') words.push(`tokens that spell ${JSON.stringify(text)}`);
  return words;
}

/** The range of a parameter, such as "from 0 to 20". */
export function rangeText({ min, max }: Parameter): string {
  const low = typeof min === 'number' ? `from ${min}` : '';
  const high = typeof max === 'number' ? `to ${max}` : '';
  return `${low} ${high}`.trim() || 'any number';
}

/** The error of a typed value; '' if the value is valid. */
export function wrongValue(parameter: Parameter, typed: string): string {
  const value = Number(typed);
  const { min, max } = parameter;
  const low = typeof min === 'number' ? min : Number.NEGATIVE_INFINITY;
  const high = typeof max === 'number' ? max : Number.POSITIVE_INFINITY;
  const fits = typed.trim() !== '' && Number.isFinite(value) && value >= low && value <= high;
  if (fits) return '';
  return low === -high
    ? `${parameter.name}: a number`
    : `${parameter.name}: ${rangeText(parameter)}`;
}

/** The step of a slider for one key press: a round number, about 1/200 of the range. */
export function dialStep(min: number, max: number): number {
  const wanted = (max - min) / 200;
  const power = 10 ** Math.floor(Math.log10(wanted));
  const round = [1, 2, 5, 10].find((each) => each * power >= wanted * 0.999) ?? 10;
  return Number((round * power).toPrecision(6));
}

/** Such as "applied at step 13 on 2/2 ranks, 4 096 positions"; null if the program has not acted yet. */
export function appliedText({ first, whole }: Counters): string | null {
  if (first === null) return null;
  const { step, ranks, of_ranks, positions } = first;
  const verb = whole ? 'applied' : 'first seen active';
  return `${verb} at step ${step} on ${ranks}/${of_ranks} ranks, ${formatPlural(positions, 'position')}`;
}

/** Such as "in force from step 13 to 512, stays when the lease ends". */
export function forceText({ since, until, keep }: Program): string {
  const end = typeof until === 'number' ? `to ${until}` : 'on';
  return `in force from step ${since} ${end}${keep ? ', stays when the lease ends' : ''}`;
}

export interface CounterLine {
  readonly text: string;
  readonly tone: 'plain' | 'warn' | 'bad';
}

/** The counters of the last step, their sums over all steps, and the reasons of skipped lines. */
export function counterLines(counters: Counters): readonly CounterLine[] {
  const { whole, from, last, forwards, positions } = counters;
  const acted = formatPlural(last.forwards, 'forward');
  const lines: CounterLine[] = [
    {
      text: `step ${last.step}: ${formatPlural(last.positions, 'position')} in ${acted}`,
      tone: last.ranks < last.of_ranks ? 'bad' : 'plain',
    },
    {
      text:
        `${whole ? 'in total' : `seen here since step ${from}:`} ` +
        `${formatPlural(positions, 'position')} in ${formatPlural(forwards, 'forward')}`,
      tone: 'plain',
    },
  ];
  const { writes } = last;
  const places = writes.map((each) => `${each.place} ${formatInteger(each.positions)}`).join(', ');
  if (places !== '') lines.splice(1, 0, { text: `at ${places}`, tone: 'plain' });
  return [...lines, ...problemLines(last)];
}

/** The ranks and lines that did not act in a step, with the reasons. */
function problemLines(last: Application): readonly CounterLine[] {
  const lines: CounterLine[] = [];
  const { identity, waiting, failed } = last;
  if (last.ranks < last.of_ranks) {
    lines.push({ text: `acted on ${last.ranks} of ${last.of_ranks} ranks only`, tone: 'bad' });
  }
  if (identity > 0) {
    const text = `${formatPlural(identity, 'write')} skipped: the result equals the input`;
    lines.push({ text, tone: 'plain' });
  }
  if (waiting > 0) {
    lines.push({ text: `${formatPlural(waiting, 'line')} waited for a saved value`, tone: 'warn' });
  }
  if (failed > 0) {
    const text = `${formatPlural(failed, 'line')} could not run with the shape of the forward`;
    lines.push({ text, tone: 'bad' });
  }
  return lines;
}
