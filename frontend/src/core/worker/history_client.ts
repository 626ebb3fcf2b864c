import {
  type AuditLine,
  auditTrailSchema,
  historySchema,
  type OtherRunFacts,
  parseRuns,
  type StepFacts,
  stepsSchema,
} from '../../protocol/messages';
import type { TensorRecord } from '../../protocol/record';
import { decodeRecords } from '../../protocol/record_reader';

/** Requests an address relative to that of the hub: "history/steps?…". */
export type Fetcher = (path: string) => Promise<Response>;

export interface StepRange {
  readonly first: number;
  readonly last: number;
}

export interface RecordsQuery {
  readonly run: string;
  readonly first: number;
  readonly last: number;
  readonly point: string;
  readonly layers: string | null;
  /** Only records of this entry of the record's plan. */
  readonly entry?: number;
  /** The limit in bytes. */
  readonly limit: number;
  /** The position after the previous answer, if that answer was not complete. */
  readonly after?: string | undefined;
}

export interface RecordsPage {
  readonly records: readonly TensorRecord[];
  readonly bytes: number;
  /** The value of `after` for the next request; null if there are no more records. */
  readonly next: string | null;
}

/**
 * The hub's history over HTTP; the browser adds the cookie. Results are undefined if the hub keeps no
 * history or cannot be reached. An invalid answer throws.
 */
export class HistoryClient {
  constructor(private readonly fetcher: Fetcher) {}

  /** The range of the steps in the history; null if the history is empty. */
  async range(run: string): Promise<StepRange | null> {
    const response = await this.get('history', { run });
    if (response === undefined) return null;
    const answer = historySchema(await response.json(), 'history');
    const { first_step, last_step, first_frame_step = 0 } = answer;
    if (first_step === undefined || last_step === undefined || last_step === 0) return null;
    return { first: first_frame_step > 0 ? first_frame_step : first_step, last: last_step };
  }

  /** The other runs that the hub offers. */
  async runs(): Promise<readonly OtherRunFacts[]> {
    const response = await this.get('history/runs', {});
    return response === undefined ? [] : parseRuns(await response.json());
  }

  /** The scalars of the last `limit` steps up to `last` (null: the newest step), ascending. */
  async steps(
    run: string,
    last: number | null,
    limit: number,
  ): Promise<readonly StepFacts[] | undefined> {
    const response = await this.get('history/steps', { run, limit, last });
    return response === undefined ? undefined : stepsSchema(await response.json(), 'steps');
  }

  /** The lines of the audit trail after the line with this id, oldest first. */
  async events(after: number, limit: number): Promise<readonly AuditLine[] | undefined> {
    const response = await this.get('history/events', { after, limit });
    return response === undefined ? undefined : auditTrailSchema(await response.json(), 'events');
  }

  async records(query: RecordsQuery): Promise<RecordsPage | undefined> {
    const response = await this.get('history/records', { ...query });
    if (response === undefined) return undefined;
    const body = await response.arrayBuffer();
    const next = response.headers.get('TT-Next');
    return { records: decodeRecords(body), bytes: body.byteLength, next };
  }

  private async get(
    path: string,
    query: Readonly<Record<string, string | number | null | undefined>>,
  ): Promise<Response | undefined> {
    const members = Object.entries(query)
      .filter(([, value]) => value !== null && value !== undefined)
      .map(([name, value]) => [name, String(value)]);
    try {
      const response = await this.fetcher(`${path}?${new URLSearchParams(members).toString()}`);
      return response.ok ? response : undefined;
    } catch {
      return undefined;
    }
  }
}

/** Sends requests to the hub with this socket address. */
export function hubFetcher(socketUrl: string): Fetcher {
  const base = socketUrl.replace(/^ws/, 'http');
  return (path) =>
    fetch(new URL(path, base), { cache: 'no-store', signal: AbortSignal.timeout(kTimeoutMs) });
}

const kTimeoutMs = 20_000;
