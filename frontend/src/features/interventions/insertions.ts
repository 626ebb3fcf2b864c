// What the editor of programs offers to insert: docs/intervention_graph.md has the same places.

export interface Insertions {
  readonly title: string;
  readonly texts: readonly string[];
}

const kInLayer = [
  'input',
  'attention.qkv',
  'attention.query',
  'attention.key',
  'attention.value',
  'attention.scores',
  'attention.context',
  'attention.output',
  'mid',
  'mlp.fc1',
  'mlp.activation',
  'mlp.output',
  'output',
];
const kWeights = [
  'attention.qkv.weight',
  'attention.proj.weight',
  'mlp.fc1.weight',
  'mlp.fc2.weight',
];

/** For a layer of the model; vectors that the run does not know cannot be named. */
export function insertionsOf(vectors: readonly string[], layer: number): readonly Insertions[] {
  const inLayer = (names: readonly string[]): readonly string[] =>
    names.map((name) => `layers[${layer}].${name}`);
  return [
    { title: 'Vectors', texts: vectors.map((name) => `vector(${JSON.stringify(name)})[${layer}]`) },
    { title: `Layer ${layer}`, texts: inLayer(kInLayer) },
    {
      title: 'Outside the layers',
      texts: ['tokens', 'embedding.output', 'final_norm.output', 'logits'],
    },
    { title: 'Weights', texts: [...inLayer(kWeights), 'output_layer.weight'] },
  ].filter(({ texts }) => texts.length > 0);
}

/** Puts a piece where the cursor stands, or in the place of what is chosen; gives the new text. */
export function insertInto(area: HTMLTextAreaElement, piece: string): string {
  area.setRangeText(piece, area.selectionStart, area.selectionEnd, 'end');
  return area.value;
}
