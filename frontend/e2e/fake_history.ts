import type { ServerResponse } from 'node:http';
import { kPoints, kRunId, stepFacts } from './fake_data.ts';
import { factsOf } from './fake_facts.ts';
import { encodeRecord } from './fake_record.ts';
import { type Entry, recordsOf, type TileValue } from './fake_tensors.ts';
import type { TrailLine } from './fake_trail.ts';

/** What the fake hub's history is read from. */
export interface Past {
  /** The oldest step that is kept, and the newest. */
  readonly first: number;
  readonly last: number;
  /** Steps of which no records are kept. */
  readonly holes: ReadonlySet<number>;
  readonly plan: { readonly number: number; readonly entries: readonly Entry[] };
  readonly value: TileValue;
  readonly trail: readonly TrailLine[];
}

/** A recording that the fake hub offers beside its run. */
export interface OtherPast extends Past {
  readonly id: string;
  readonly name: string;
}

/** Answers GET /history and what lies below it, as docs/protocol.md says. */
export function answerHistory(
  url: URL,
  own: Past | null,
  others: readonly OtherPast[],
  response: ServerResponse,
): void {
  const query = url.searchParams;
  const number = (name: string, otherwise: number): number => Number(query.get(name) ?? otherwise);
  if (url.pathname === '/history/runs') {
    json(response, { runs: others.map(runOf) });
    return;
  }
  if (own !== null && url.pathname === '/history/events') {
    const later = own.trail.filter(({ id }) => id > number('after', 0));
    json(response, later.slice(0, number('limit', 2000)));
    return;
  }
  const run = query.get('run') ?? '';
  const past = run === kRunId ? own : (others.find(({ id }) => id === run) ?? null);
  if (past === null) {
    response.writeHead(404).end('there is no such run here yet\n');
    return;
  }
  const first = Math.max(past.first, number('first', 1));
  const last = Math.min(past.last, number('last', past.last));
  if (url.pathname === '/history') {
    json(response, { run, first_step: past.first, last_step: past.last });
  } else if (url.pathname === '/history/steps') {
    json(response, range(first, last).slice(-number('limit', 2000)).map(stepFacts));
  } else if (!kPoints.some(({ name }) => name === query.get('point'))) {
    response.writeHead(400).end('the run has no such trace point\n');
  } else {
    const steps = range(first, last).filter((step) => !past.holes.has(step));
    const body = Buffer.concat(steps.flatMap((step) => recordsAt(past, run, step, query)));
    response.setHeader('Content-Type', 'application/octet-stream');
    response.end(body);
  }
}

function runOf({ id, name, plan, first, last }: OtherPast): unknown {
  return { id, name, facts: { ...factsOf(plan), id, name }, first_step: first, last_step: last };
}

function recordsAt(past: Past, id: string, step: number, query: URLSearchParams): Buffer[] {
  const { plan, value } = past;
  const run = BigInt(`0x${id}`);
  return plan.entries.flatMap((entry, index) => {
    if (entry.point !== query.get('point')) return [];
    if (String(index) !== (query.get('entry') ?? String(index))) return [];
    return recordsOf(entry, step, value).map(({ fields, payload }) =>
      encodeRecord({ run, sequence: 1, plan: plan.number, step, entry: index, ...fields }, payload),
    );
  });
}

function json(response: ServerResponse, value: unknown): void {
  response.setHeader('Content-Type', 'application/json');
  response.end(JSON.stringify(value));
}

function range(first: number, last: number): number[] {
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i);
}
