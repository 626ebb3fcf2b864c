export const kFormats = [
  { format: 'png', name: 'PNG picture', text: 'the view with its title, axes and legend' },
  { format: 'csv', name: 'CSV tables', text: 'the numbers, for a spreadsheet' },
  { format: 'npz', name: 'NPZ arrays', text: 'the exact numbers, for NumPy' },
] as const;
export type Format = (typeof kFormats)[number]['format'];
