import expressions from '../../../../docs/expressions.md?raw';
import type { RunFacts } from '../../protocol/messages';

// The words of the program language, for colours and completion. Operators come from the list of
// docs/expressions.md, places from the run's facts.

export interface Word {
  readonly text: string;
  /** A short description. */
  readonly about: string;
  readonly kind: 'place' | 'vector' | 'operator' | 'line' | 'name';
}

export type Facts = Pick<RunFacts, 'program_places' | 'vectors' | 'model'>;

export const kOperators: ReadonlySet<string> = new Set(operatorsOf(expressions));

/** The names in backquotes in the section "Operators". */
export function operatorsOf(document: string): readonly string[] {
  const section = document.split(/^## /m).find((each) => each.startsWith('Operators\n')) ?? '';
  return [...section.matchAll(/`([a-z]\w*)`/g)].map(([, name]) => name);
}

/** Lines and calls that only programs have: docs/intervention_graph.md. */
const kLines: readonly (readonly [text: string, about: string])[] = [
  ['param(1.0, min=0.0, max=10.0)', 'a number with a slider'],
  ['when(phase="train")', 'when and where the program acts'],
  ['save(', 'sends a value to all viewers'],
  ['skip(layers[layer])', 'the layer is not computed'],
  ['saved(', 'the value of a save in the previous forward'],
  ['noise(', 'random numbers with the shape of a place'],
  ['file(', 'a tensor from a file'],
  ['final_norm(', 'the model’s final norm, applied to any value'],
  ['output_layer(', 'scores of the next token, computed from any value'],
  ['if ', 'a condition: if mask: line'],
];

export const kCalls: ReadonlySet<string> = new Set([
  ...kLines.map(([text]) => text.replace(/\W.*$/, '')),
  'vector',
]);

/** The middle layer of a model: 2 of 4, 3 of 5. */
export function middleLayer(layers: number): number {
  return Math.max(1, Math.ceil(layers / 2));
}

const kInLayer = 'layers[n].';

/** Places inside a layer, without "layers[n]." in front. */
export function placesInLayer(facts: Facts): readonly Word[] {
  return placesOf(facts)
    .filter(({ text }) => text.startsWith(kInLayer))
    .map((word) => ({ ...word, text: word.text.slice(kInLayer.length) }));
}

/** Places outside the layers. */
export function placesOutside(facts: Facts): readonly Word[] {
  return placesOf(facts).filter(({ text }) => !text.startsWith(kInLayer));
}

function placesOf({ program_places: places }: Facts): readonly Word[] {
  return (places ?? []).map(({ path, text }) => ({ text: path, about: text, kind: 'place' }));
}

export function lineWords(): readonly Word[] {
  return kLines.map(([text, about]) => ({ text, about, kind: 'line' }));
}

export function operatorWords(): readonly Word[] {
  return [...kOperators].map((name) => ({ text: `${name}(`, about: 'operator', kind: 'operator' }));
}

/** The run's vectors, each with the row of a layer. */
export function vectorWords({ vectors }: Facts, layer: number): readonly Word[] {
  return vectors.map((name) => ({
    text: `vector(${JSON.stringify(name)})[${layer}]`,
    about: 'direction vector',
    kind: 'vector',
  }));
}

/** The names that the lines of a program define. */
export function namesOf(program: string): readonly Word[] {
  const names = [...program.matchAll(/^\s*([A-Za-z_]\w*)\s*=(?!=)/gm)].map(([, name]) => name);
  return [...new Set(names)].map((text) => ({
    text,
    about: 'a name in this program',
    kind: 'name',
  }));
}
