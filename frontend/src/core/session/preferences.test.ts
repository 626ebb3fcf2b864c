import { afterEach, expect, test, vi } from 'vitest';
import { preferredTheme, preferredView, rememberTheme, rememberView } from './preferences';
import { defaultView } from './url_state';

function storage(content: Record<string, string> = {}): Record<string, string> {
  vi.stubGlobal('localStorage', {
    getItem: (key: string) => content[key] ?? null,
    setItem: (key: string, value: string) => (content[key] = value),
  });
  return content;
}

afterEach(() => vi.unstubAllGlobals());

test('curves, marks and theme are remembered, the rest of the view is not', () => {
  storage();
  expect(preferredView()).toEqual(defaultView());
  rememberView({ smoothing: 0.5, logX: true, step: 12, layer: 3 });
  rememberView({ layer: 4 });
  rememberView({ events: false });
  rememberTheme('dark');
  expect(preferredView()).toEqual({ ...defaultView(), smoothing: 0.5, logX: true, events: false });
  expect(preferredTheme()).toBe('dark');
});

test('what cannot be read, or does not fit, is as if nothing were kept', () => {
  for (const kept of ['{', '7', '{"smoothing": "much"}', '{"theme": "pink"}']) {
    storage({ 'tensor-tracer.preferences': kept });
    expect(preferredView()).toEqual(defaultView());
    expect(preferredTheme()).toBe('auto');
  }
  storage({ 'tensor-tracer.preferences': '{"smoothing": 7}' });
  expect(preferredView().smoothing).toBe(defaultView().smoothing);
});

test('a browser that blocks its storage has the defaults and no failure', () => {
  vi.stubGlobal('localStorage', {
    getItem: () => {
      throw new DOMException('denied', 'SecurityError');
    },
    setItem: () => {
      throw new DOMException('denied', 'SecurityError');
    },
  });
  rememberView({ smoothing: 0.1 });
  expect(preferredView()).toEqual(defaultView());
});
