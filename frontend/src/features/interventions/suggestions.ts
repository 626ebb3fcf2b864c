import {
  type Facts,
  lineWords,
  middleLayer,
  namesOf,
  operatorWords,
  placesInLayer,
  placesOutside,
  vectorWords,
  type Word,
} from './vocabulary';

/** The words that fit at the cursor. A word replaces `back` characters before the cursor. */
export interface Suggestions {
  readonly back: number;
  readonly words: readonly Word[];
}

/**
 * The words that can follow `before`, the text of the line up to the cursor. `program` is the whole
 * text. Null if no word fits, as in a comment.
 */
export function suggestionsAt(
  before: string,
  program: string,
  facts: Facts | null,
): Suggestions | null {
  if (/^[^"']*#/.test(before)) return null;
  const inVector = /\bvector\(\s*(["']\w*)$/.exec(before);
  if (inVector !== null) return { back: inVector[1].length, words: vectorNames(facts) };
  if (/["'][^"']*$/.test(withoutStrings(before))) return null;
  const inLayer = /\blayers\[[^\]]*\]\.([\w.]*)$/.exec(before);
  if (inLayer !== null) {
    const words = facts === null ? [] : placesInLayer(facts);
    return { back: inLayer[1].length, words };
  }
  const behindDot = /\.([A-Za-z_]\w*)?$/.exec(before);
  const outside = /(?:^|[^\w.\])])((?:[a-z_]+\.)+\w*)$/.exec(before);
  const places = facts === null ? [] : placesOutside(facts);
  const known = outside?.[1] ?? '';
  if (known !== '' && places.some(({ text }) => text.startsWith(known))) {
    return { back: known.length, words: places };
  }
  if (behindDot !== null) return { back: behindDot[1]?.length ?? 0, words: operatorWords() };
  const word = /[A-Za-z_]\w*$/.exec(before)?.[0] ?? '';
  return { back: word.length, words: everything(program, facts, word) };
}

function withoutStrings(text: string): string {
  return text.replace(/"[^"]*"|'[^']*'/g, '');
}

function vectorNames(facts: Facts | null): readonly Word[] {
  return (facts?.vectors ?? []).map((name) => ({
    text: `${JSON.stringify(name)})`,
    about: 'direction vector',
    kind: 'vector',
  }));
}

function everything(program: string, facts: Facts | null, typed: string): readonly Word[] {
  const names = namesOf(program).filter(({ text }) => text !== typed);
  if (facts === null) return [...names, ...lineWords(), ...operatorWords()];
  const layer = middleLayer(facts.model.num_layers);
  const inLayer = placesInLayer(facts).map((word) => ({
    ...word,
    text: `layers[${layer}].${word.text}`,
  }));
  return [
    ...names,
    ...vectorWords(facts, layer),
    ...inLayer,
    ...placesOutside(facts),
    ...lineWords(),
    ...operatorWords(),
  ];
}
