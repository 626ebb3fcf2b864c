import { expect, test } from 'vitest';
import type { AlarmRule } from '../../protocol/alarms';
import { curveText, testText } from './alarm_words';

const loss: AlarmRule = { name: 'a', scalar: 'loss', test: 'nonfinite' };

test('a curve is named by its scalar, or by its number, point and what selects the records', () => {
  expect(curveText(loss)).toBe('loss');
  const point = { name: 'a', point: 'MLP1', test: 'nonfinite' };
  expect(curveText({ ...point, statistic: 'rms', layers: '1-4', direction: 'gradient' })).toBe(
    'rms of MLP1, gradient, L1-4',
  );
  expect(curveText({ ...point, vector: 'evil', over: 'last', prompts: 'probes' })).toBe(
    'MLP1 on evil, last token, probes',
  );
  expect(curveText({ ...point, vector: 'evil', phase: 'eval' })).toBe('MLP1 on evil, evaluation');
  expect(curveText({ ...point, statistic: 'value', column: '3', over: 'largest' })).toBe(
    'MLP1, column 3, largest',
  );
  expect(curveText({ ...point, statistic: 'value', parameter: 'layers[1].norm' })).toBe(
    'MLP1, layers[1].norm',
  );
});

test.each([
  [{ test: 'above', value: 5 }, 'above 5'],
  [{ test: 'below', value: -1.5, consecutive: 3 }, 'below −1.5, 3 values in a row'],
  [{ test: 'rising', value: 0.1, window: 20 }, 'rising by more than 0.1 a step over 20 values'],
  [{ test: 'range', low: 0, high: 2 }, 'outside 0 to 2'],
  [{ test: 'sigma', k: 6, window: 100 }, 'more than 6 σ from the mean of the last 100 values'],
  [
    { test: 'sigma', k: 6, first: 50, side: 'above' },
    'more than 6 σ above the mean of the first 50 values',
  ],
  [{ test: 'nonfinite' }, 'NaN or infinite'],
])('%o', (members, text) => {
  expect(testText({ ...loss, ...members })).toBe(text);
});
