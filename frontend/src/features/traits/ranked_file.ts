import { formatInteger } from '../../base/format';
import {
  count,
  isRecord,
  nullable,
  number,
  object,
  optional,
  parse,
  SchemaError,
  string,
} from '../../base/schema';
import { finite } from '../../core/store/series_store';
import { Slices } from './slices';

/** The name of a score: the projection, or its difference to that of a base response. */
export type ScoreName = 'projection' | 'projection_difference';

/** A text of the file. Null: the text has no score, or the file has no base responses. */
export interface RankedText {
  /** From 1. */
  readonly line: number;
  readonly score: number | null;
  readonly rank: number | null;
  /** Only of a difference: the projections of the text and of its base response. */
  readonly own: number | null;
  readonly base: number | null;
  /** '' for a text without a prompt. */
  readonly prompt: string;
  readonly text: string;
}

export interface RankedFile {
  readonly name: string;
  readonly score: ScoreName;
  /** In the order of the file. */
  readonly texts: readonly RankedText[];
}

/** A file that cannot be shown; the message names the file and the line. */
export class RankedFileError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'RankedFileError';
  }
}

/** More texts would need more memory than a page should take. */
export const kMaxTexts = 500_000;

const kRemedy = 'Open a file that tensor-tracer vector score wrote.';
const kNewline = 10;

const kTexts = {
  text: optional(string),
  prompt: optional(string),
  response: optional(string),
  document: optional(count),
  rank: nullable(count),
};
const kSchemas = {
  projection: object({ ...kTexts, projection: nullable(number) }),
  projection_difference: object({
    ...kTexts,
    projection_difference: nullable(number),
    projection: optional(nullable(number)),
    base_projection: optional(nullable(number)),
  }),
} as const;

/**
 * Reads a file of `tensor-tracer vector score` in slices of time. `goesOn` gets the share that is read;
 * if it returns false, reading stops, and the result is null. Throws a RankedFileError.
 */
export async function readRanked(
  file: Pick<File, 'name' | 'size' | 'stream'>,
  goesOn: (share: number) => boolean = () => true,
  most = kMaxTexts,
): Promise<RankedFile | null> {
  const lines = new LineReader(file.name, most);
  const splitter = new LineSplitter();
  const slices = new Slices();
  const reader = file.stream().getReader();
  let bytes = 0;
  const tell = (): boolean => goesOn(Math.min(1, file.size === 0 ? 1 : bytes / file.size));
  for (;;) {
    const { done, value } = await reader.read();
    for (const line of done ? splitter.rest() : splitter.linesOf(value)) {
      lines.add(line);
      bytes += line.length + 1;
      if (!slices.isOver) continue;
      await slices.rest();
      if (!tell()) break;
    }
    if (!tell()) {
      await reader.cancel();
      return null;
    }
    if (done) return lines.file;
  }
}

/** Divides chunks of bytes at the ends of lines. */
class LineSplitter {
  private held: Uint8Array[] = [];

  *linesOf(chunk: Uint8Array): Generator<Uint8Array> {
    let from = 0;
    for (;;) {
      const end = chunk.indexOf(kNewline, from);
      if (end < 0) break;
      this.held.push(chunk.subarray(from, end));
      yield* this.rest();
      from = end + 1;
    }
    if (from < chunk.length) this.held.push(chunk.subarray(from));
  }

  /** The line whose parts are held; none without a part. */
  *rest(): Generator<Uint8Array> {
    const parts = this.held;
    this.held = [];
    if (parts.length === 1) yield parts[0];
    if (parts.length < 2) return;
    const line = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
    let at = 0;
    for (const part of parts) {
      line.set(part, at);
      at += part.length;
    }
    yield line;
  }
}

/** Reads one line after the other. */
class LineReader {
  private readonly decoder = new TextDecoder('utf-8', { fatal: true });
  private readonly texts: RankedText[] = [];
  private score: ScoreName | undefined;
  private line = 0;

  constructor(
    private readonly name: string,
    private readonly most: number,
  ) {}

  get file(): RankedFile {
    const { name, score, texts } = this;
    if (score === undefined) throw new RankedFileError(`"${name}" holds no text. ${kRemedy}`);
    return { name, score, texts };
  }

  add(bytes: Uint8Array): void {
    this.line += 1;
    const text = this.decode(bytes).trim();
    if (text === '') return;
    const value = this.valueOf(text);
    this.score ??= this.scoreOf(value);
    if (this.texts.length === this.most) throw this.tooLong();
    this.texts.push(this.textOf(value, this.score));
  }

  private decode(bytes: Uint8Array): string {
    try {
      return this.decoder.decode(bytes);
    } catch {
      throw this.wrong('is not UTF-8');
    }
  }

  private valueOf(text: string): Readonly<Record<string, unknown>> {
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      throw this.wrong('is not JSON');
    }
    if (!isRecord(value)) throw this.wrong('is not a JSON object');
    return value;
  }

  /** The score of the file is that of its first line. */
  private scoreOf(value: Readonly<Record<string, unknown>>): ScoreName {
    if ('projection_difference' in value) return 'projection_difference';
    if ('projection' in value) return 'projection';
    throw this.wrong('has no "projection" and no "projection_difference"');
  }

  private textOf(value: unknown, score: ScoreName): RankedText {
    try {
      const { line } = this;
      if (score === 'projection') {
        const read = parse(kSchemas.projection, value);
        return { line, ...wordsOf(read), score: finite(read.projection), own: null, base: null };
      }
      const read = parse(kSchemas.projection_difference, value);
      const { projection: own = null, base_projection: base = null } = read;
      return { line, ...wordsOf(read), score: finite(read.projection_difference), own, base };
    } catch (error) {
      if (error instanceof SchemaError) throw this.wrong(`is wrong: ${error.message}`);
      throw error;
    }
  }

  private tooLong(): RankedFileError {
    const { name, most } = this;
    const remedy = `Open a part of it: head -n ${most} FILE > PART`;
    return new RankedFileError(`"${name}" has more than ${formatInteger(most)} texts. ${remedy}`);
  }

  private wrong(reason: string): RankedFileError {
    return new RankedFileError(`line ${this.line} of "${this.name}" ${reason}. ${kRemedy}`);
  }
}

interface Words {
  readonly text?: string | undefined;
  readonly prompt?: string | undefined;
  readonly response?: string | undefined;
  readonly document?: number | undefined;
  readonly rank: number | null;
}

function wordsOf({
  text,
  prompt = '',
  response,
  document,
  rank,
}: Words): Pick<RankedText, 'rank' | 'prompt' | 'text'> {
  const numbered = document === undefined ? '' : `document ${document}`;
  return { rank, prompt, text: response ?? text ?? numbered };
}
