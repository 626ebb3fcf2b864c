// The trainer's part of interventions, as docs/protocol.md has it: it knows as much of the language
// as the tests need.

import { kSequence, type tileValue } from './fake_data.ts';
import { type FakeChange, previewRecords } from './fake_preview.ts';
import type { Entry } from './fake_tensors.ts';

type Json = Record<string, unknown>;

export interface FakeProgram extends Json {
  readonly name: string;
  readonly text: string;
  readonly parameters: readonly FakeParameter[];
  readonly saves: readonly string[];
  readonly writes: readonly { readonly place: string }[];
}

interface FakeParameter {
  readonly name: string;
  readonly value: number;
  readonly min?: number;
  readonly max?: number;
}

interface Refusal {
  readonly code: string;
  readonly message: string;
  readonly where: string;
  readonly remedy: string;
}

export interface Reply {
  readonly result: (value: unknown) => void;
  readonly error: (code: string, message: string, where?: string, remedy?: string) => void;
}

interface Run {
  readonly step: number;
  broadcast(event: string, params: unknown): void;
  value(...place: Parameters<typeof tileValue>): number;
}

const kCalls = ['param', 'vector', 'save', 'when', 'skip', 'clamp', 'norm', 'abs', 'mean', 'sum'];
const kPoints: Readonly<Record<string, string>> = {
  output: 'HiddenStates',
  'mlp.activation': 'MLPActivation',
};
/** Tokens of one forward. */
export const kPositions = 8 * kSequence;

export class FakeInterventions {
  programs: FakeProgram[] = [];
  /** How long `intervention.set` waits for its step. */
  setDelayMs = 0;
  /** So many of them were on their way at once. */
  mostSets = 0;
  /** What the next `intervention.apply` or `intervention.preview` is refused with. */
  refusal: Refusal | null = null;
  /** How the records of a preview come: an older trainer has none, an older hub refuses the plan. */
  previewRecords: 'whole' | 'none' | 'refused' | 'damaged' = 'whole';
  private sets = 0;

  constructor(private readonly run: Run) {}

  check(params: Json, { result, error }: Reply): void {
    const text = textOf(params.program);
    const refusal = refusalOf(text);
    if (refusal !== null) error(refusal.code, refusal.message, refusal.where, refusal.remedy);
    else
      result({ ...effectsOf(text), text, graph: { version: 1, nodes: [] }, positions: kPositions });
  }

  answer(method: string, params: Json, reply: Reply): void {
    const { refusal } = this;
    if (refusal !== null) {
      this.refusal = null;
      reply.error(refusal.code, refusal.message, refusal.where, refusal.remedy);
    } else if (method === 'intervention.apply') this.apply(params, reply);
    else if (method === 'intervention.set') this.set(params, reply);
    else if (method === 'intervention.remove') this.remove(params, reply);
    else if (method === 'intervention.preview') this.preview(params, reply);
    else reply.error('unknown_method', method);
  }

  /** What the programs did in a step, and what they saved. */
  stepped(step: number): void {
    if (this.programs.length === 0) return;
    const programs = this.programs.map(({ name, writes }) => ({
      ...{ name, forwards: 2, positions: 2 * kPositions, identity: 0, waiting: 0, failed: 0 },
      writes: writes.map(({ place }) => ({ place, positions: 2 * kPositions })),
      ...{ ranks: 2, of_ranks: 2 },
    }));
    this.run.broadcast('applied', { step, programs });
    for (const { name: program, saves } of this.programs) {
      for (const name of saves) {
        const about = { step, micro_batch: 0, phase: 'train', prompt_set: 0, first_row: 0 };
        const values = name.startsWith('all_') ? [1.5, 'NaN', -step] : [step / 10];
        const shape = values.length === 1 ? [] : [values.length];
        this.run.broadcast('saved', { ...about, program, name, layer: 0, shape, values });
      }
    }
  }

  /** Another set of programs is in force, by itself: an end, a lost lease. */
  become(programs: FakeProgram[], reason: string): void {
    this.programs = programs;
    this.run.broadcast('interventions', { step: this.run.step + 1, programs, reason });
  }

  private apply(params: Json, { result }: Reply): void {
    const text = textOf(params.program);
    const name = String(params.name);
    const since = this.run.step + 1;
    const until = typeof params.ttl === 'number' ? { until: since + params.ttl - 1 } : {};
    const effects = effectsOf(text);
    const chosen = (params.parameters ?? {}) as Readonly<Record<string, number>>;
    const parameters = effects.parameters.map((each) => ({
      ...each,
      value: chosen[each.name] ?? each.value,
    }));
    const keep = params.keep === true;
    const program = { ...effects, name, text, parameters, since, keep, ...until };
    result({ step: since, ranks: 2, program });
    this.become([...this.programs.filter((each) => each.name !== name), program], 'apply');
  }

  private set(params: Json, { result, error }: Reply): void {
    this.sets += 1;
    this.mostSets = Math.max(this.mostSets, this.sets);
    setTimeout(() => {
      this.sets -= 1;
      if (!this.programs.some(({ name }) => name === params.name)) {
        error('invalid_argument', 'there is no such program', 'name');
        return;
      }
      const programs = this.programs.map((program) => ({
        ...program,
        parameters: program.parameters.map((each) =>
          program.name === params.name && each.name === params.parameter
            ? { ...each, value: Number(params.value) }
            : each,
        ),
      }));
      result({ step: this.run.step + 1, ranks: 2, value: params.value });
      this.become(programs, 'set');
    }, this.setDelayMs);
  }

  private remove(params: Json, { result }: Reply): void {
    const isOut = ({ name }: FakeProgram): boolean =>
      params.name === undefined || params.name === name;
    const removed = this.programs.filter(isOut).map(({ name }) => name);
    result({ step: this.run.step + 1, ranks: 2, removed });
    const left = this.programs.filter((each) => !isOut(each));
    this.become(left, 'remove');
  }

  private preview(params: Json, { result, error }: Reply): void {
    if (this.previewRecords === 'refused' && params.plan !== undefined) {
      error('invalid_argument', 'this member is not known', 'plan');
      return;
    }
    const text = textOf(params.program);
    const { writes } = effectsOf(text);
    const chosen = params.parameters as Readonly<Record<string, number>> | undefined;
    const change = chosen?.alpha ?? 4;
    result({
      ...this.recordsOf(params, changeOf(text, change)),
      step: this.run.step,
      batches: [
        { batch: 'train', loss_off: 2.31, loss_on: 2.31 + change / 100 },
        { batch: 'valid', loss_off: 2.4, loss_on: 2.375 },
      ],
      writes: writes.map(({ place }) => ({
        ...{ place, positions: kPositions, norm_before: 320, norm_change: 4 * change },
      })),
    });
  }

  private recordsOf({ plan }: Json, change: FakeChange): Json {
    if (plan === undefined || this.previewRecords === 'none') return {};
    const { off, on } = previewRecords(this.run, plan as { entries: readonly Entry[] }, change);
    return { records: { off, on: this.previewRecords === 'damaged' ? on.slice(0, 400) : on } };
  }
}

/** `layers[3].output = 1.5 * …` scales; everything else shifts. */
function changeOf(text: string, by: number): FakeChange {
  const layer = Number(/^layers\[(\d+)\].*=/m.exec(text)?.[1] ?? 1);
  const factor = /= ([\d.]+) \*/.exec(text)?.[1];
  if (factor === undefined) return { layer, factor: 1, shift: by / 8 };
  return { layer, factor: Number(factor), shift: 0 };
}

function textOf(program: unknown): string {
  return typeof program === 'string' ? program : '# from a graph\n';
}

/** Knows some calls: whatever else is called is refused as the trainer shows it. */
function refusalOf(text: string): Refusal | null {
  for (const [index, line] of text.split('\n').entries()) {
    for (const { 1: name, index: at } of line.replace(/#.*/, '').matchAll(/\b([a-z_]+)\(/g)) {
      if (kCalls.includes(name)) continue;
      const place = `line ${index + 1}, column ${at + 1}`;
      const marks = `${' '.repeat(at)}^${'~'.repeat(name.length - 1)}`;
      const message = `there is no "${name}" (${place})\n  ${line}\n  ${marks}`;
      const remedy = 'docs/intervention_graph.md lists what there is';
      return { code: 'invalid_expression', message, where: `program, ${place}`, remedy };
    }
  }
  return null;
}

interface Effects {
  readonly parameters: readonly FakeParameter[];
  readonly writes: readonly (Json & { readonly place: string })[];
  readonly saves: readonly string[];
  readonly when: Json;
}

function effectsOf(source: string): Effects & Json {
  const text = source.replace(/#.*/g, '');
  const parameters = [...text.matchAll(/^(\w+) = param\(([^)]*)\)/gm)].map(([, name, inside]) => {
    const member = (key: string): Json => {
      const found = new RegExp(`${key}=(-?[\\d.]+)`).exec(inside);
      return found === null ? {} : { [key]: Number(found[1]) };
    };
    return { name, value: parseFloat(inside), ...member('min'), ...member('max') };
  });
  const writes = [...text.matchAll(/^layers\[(\d+)\]\.([a-z.]+\w).*?[+\-*/]?= /gm)].map(
    ([, layer, path]) => ({
      place: `layers[${layer}].${path}`,
      point: kPoints[path] ?? path,
      ...{ layer: Number(layer), gradient: false },
      runs: path === 'output' ? 'everywhere' : 'shards',
    }),
  );
  const saves = [...text.matchAll(/^save\(.*"(\w+)"\)/gm)].map(([, name]) => name);
  const when = Object.fromEntries(
    [...(/^when\((.*)\)/m.exec(text)?.[1] ?? '').matchAll(/(\w+)="([^"]*)"/g)].map(
      ([, name, value]) => [name, value],
    ),
  );
  const reads = [{ place: 'layers[2].output', point: 'HiddenStates', layer: 2, gradient: false }];
  return { parameters, writes, reads, saves, skips: [], when };
}
