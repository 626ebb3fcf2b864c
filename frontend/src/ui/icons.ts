/** An icon on a square of 16 units: drawn as lines, or filled. */
export interface IconPath {
  readonly path: string;
  readonly filled?: true;
}

/** The page's icons. They are used beside a text, or in a button with an accessible name. */
export const kIcons = {
  play: { path: 'M4.5 2.5v11l9-5.5z', filled: true },
  pause: { path: 'M4 3h3v10H4zM9 3h3v10H9z', filled: true },
  step: { path: 'M3 3v10l7-5zM11 3h2v10h-2z', filled: true },
  stop: { path: 'M4 4h8v8H4z', filled: true },
  save: { path: 'M8 2v8M4.5 6.5 8 10l3.5-3.5M3 13.5h10' },
  back: { path: 'M10 3.5 5.5 8l4.5 4.5' },
  on: { path: 'M6 3.5 10.5 8 6 12.5' },
  down: { path: 'M3.5 6 8 10.5 12.5 6' },
  link: {
    path: 'M6.5 9.5l3-3M7 4.8l1.5-1.5a2.9 2.9 0 0 1 4.2 4.2L11.2 9M9 11.2l-1.5 1.5a2.9 2.9 0 0 1-4.2-4.2L4.8 7',
  },
  search: { path: 'M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9M10.4 10.4 14 14' },
  close: { path: 'M4 4l8 8M12 4l-8 8' },
  person: { path: 'M8 3a2.5 2.5 0 1 1 0 5 2.5 2.5 0 0 1 0-5M3.5 13.5a4.5 4.5 0 0 1 9 0' },
  light: {
    path: 'M8 5a3 3 0 1 1 0 6 3 3 0 0 1 0-6M8 1.5V3M8 13v1.5M1.5 8H3M13 8h1.5M3.4 3.4l1 1M11.6 11.6l1 1M12.6 3.4l-1 1M4.4 11.6l-1 1',
  },
  dark: { path: 'M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5z' },
  auto: { path: 'M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11M8 2.5v11M10.5 3.6v8.8M5.5 8H8' },
} as const satisfies Record<string, IconPath>;

export type IconName = keyof typeof kIcons;
