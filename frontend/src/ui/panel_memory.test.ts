import { beforeEach, expect, test, vi } from 'vitest';
import { keepPanelState, panelState } from './panel_memory';

let kept: string | null;
beforeEach(() => {
  kept = null;
  vi.stubGlobal('localStorage', {
    getItem: () => kept,
    setItem: (_: string, value: string) => (kept = value),
  });
});

test('each panel is remembered by its name', () => {
  keepPanelState('curves', { size: 31 });
  keepPanelState('events', { folded: true });
  expect(panelState('curves')).toEqual({ size: 31 });
  expect(panelState('events')).toEqual({ folded: true });
  expect(panelState('other')).toEqual({});
});

test('what is kept wrongly is as nothing', () => {
  for (const wrong of ['[', '3', '{"curves": 4}', '{"curves": {"size": "x", "folded": 1}}']) {
    kept = wrong;
    expect(panelState('curves')).toEqual({});
  }
  kept = '{"curves": {"size": 400}}';
  expect(panelState('curves')).toEqual({});
});
