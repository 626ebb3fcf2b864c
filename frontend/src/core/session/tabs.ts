/** The pages of the page, in the order of their keys 1 to 6. */
export const kTabs = [
  { tab: 'overview', name: 'Overview', text: 'Curves, state and events of the run' },
  { tab: 'tensors', name: 'Tensors', text: 'What one entry of the trace plan shows' },
  { tab: 'text', name: 'Text', text: 'Tokens of the batch and what the model predicts' },
  { tab: 'compare', name: 'Compare', text: 'Two steps, phases or runs: A, B and A − B' },
  { tab: 'plan', name: 'Plan', text: 'What is traced: points, layers, rate, compressor' },
  {
    tab: 'interventions',
    name: 'Interventions',
    text: 'Programs that change values inside the model while it runs',
  },
] as const;

export type Tab = (typeof kTabs)[number]['tab'];
