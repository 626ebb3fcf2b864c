import type { Tokenizer } from '../../protocol/messages';

// The symbols for bytes that are not printable.
const kNames: ReadonlyMap<number, string> = new Map([
  [9, '⇥'],
  [10, '⏎'],
  [13, '␍'],
  [32, '␣'],
]);

/**
 * The text of one token, with a sign for white space. With the byte tokenizer, printable ASCII is unchanged, and
 * other bytes are escaped. An id without a text is "#4711"; a negative id is a token that was not captured.
 */
export function tokenText(id: number, tokenizer: Tokenizer): string {
  if (id < 0) return '·';
  if (tokenizer !== 'byte') return withSigns(knownText(id, tokenizer)) ?? `#${id}`;
  const name = kNames.get(id);
  if (name !== undefined) return name;
  if (id > 32 && id < 127) return String.fromCharCode(id);
  return `\\x${id.toString(16).padStart(2, '0')}`;
}

function knownText(id: number, tokenizer: Tokenizer): string | undefined {
  const text = typeof tokenizer === 'string' ? '' : (tokenizer[id] ?? '');
  return text === '' ? undefined : text;
}

function withSigns(text: string | undefined): string | undefined {
  return text?.replace(/[\t\n\r ]/g, (space) => kNames.get(space.charCodeAt(0)) ?? space);
}

/** The text of a token in running text, with real spaces and line breaks. */
export function tokenOfText(id: number, tokenizer: Tokenizer): string {
  if (tokenizer !== 'byte' && id >= 0) return knownText(id, tokenizer) ?? `#${id} `;
  if (id === 32) return ' ';
  return id === 10 ? `${tokenText(id, tokenizer)}\n` : tokenText(id, tokenizer);
}

interface TokenAxis {
  readonly tokens: Int32Array | null;
  readonly positions: Int32Array;
}

/** The labels for the columns of a map: the positions. */
export function columnLabelOf({
  positions,
}: Pick<TokenAxis, 'positions'>): (col: number) => string {
  return (col) => String(positions[col] ?? col);
}

/** The text of each column's token; undefined if the tokens were not captured. */
export function columnTextOf(
  { tokens }: Pick<TokenAxis, 'tokens'>,
  tokenizer: Tokenizer,
): ((col: number) => string) | undefined {
  return tokens === null ? undefined : (col) => tokenText(tokens[col] ?? -1, tokenizer);
}

/** A token with the text around it; in this text, spaces stay spaces. */
export interface TokenContext {
  readonly before: string;
  readonly token: string;
  readonly after: string;
}

export function tokenContext(
  ids: ArrayLike<number>,
  at: number,
  reach: number,
  tokenizer: Tokenizer,
  last = at,
): TokenContext {
  const text = (from: number, to: number, textOf = readable): string => {
    let out = '';
    for (let i = Math.max(0, from); i < Math.min(ids.length, to); i++) {
      out += textOf(ids[i], tokenizer);
    }
    return out;
  };
  return {
    before: text(at - reach, at),
    token: text(at, last + 1, tokenText),
    after: text(last + 1, last + 1 + reach),
  };
}

/** On one line: line breaks have a sign. */
function readable(id: number, tokenizer: Tokenizer): string {
  if (tokenizer !== 'byte' && id >= 0) {
    return withSigns(knownText(id, tokenizer)?.replaceAll(' ', '\u00a0')) ?? ` #${id}`;
  }
  return id === 32 ? '\u00a0' : tokenText(id, tokenizer);
}
