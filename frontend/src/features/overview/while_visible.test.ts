import { afterEach, expect, test, vi } from 'vitest';
import { whileVisible } from './while_visible';

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test('the call comes every 10 s, only while the page is visible, until it is ended', () => {
  vi.useFakeTimers();
  const page = { visibilityState: 'visible' };
  vi.stubGlobal('document', page);
  const call = vi.fn();
  const end = whileVisible(call);
  vi.advanceTimersByTime(20_000);
  expect(call).toHaveBeenCalledTimes(2);
  page.visibilityState = 'hidden';
  vi.advanceTimersByTime(30_000);
  expect(call).toHaveBeenCalledTimes(2);
  page.visibilityState = 'visible';
  vi.advanceTimersByTime(10_000);
  expect(call).toHaveBeenCalledTimes(3);
  end();
  vi.advanceTimersByTime(30_000);
  expect(call).toHaveBeenCalledTimes(3);
});
