import { expect, test } from 'vitest';
import { formatViewState, kDefaultView, parseViewState, type ViewState } from './url_state';

test('the default view needs no query', () => {
  expect(formatViewState(kDefaultView)).toBe('');
  expect(parseViewState('')).toEqual(kDefaultView);
});

test('every member survives the address', () => {
  const view: ViewState = {
    tab: 'compare',
    point: 'MLP1 & co',
    layer: 3,
    row: 2,
    head: 3,
    vector: 1,
    over: 'mean',
    stat: 'norm',
    phase: 'eval',
    aggregate: 'absmax',
    step: 118,
    smoothing: 0.85,
    logLoss: true,
    logGrad: true,
    clip99: true,
    layerLock: 0.53,
    tileLock: 1.5e-5,
    runA: '5f0c12ab34cd56ef',
    runB: '00000000000000aa',
    stepB: 40,
    phaseB: 'eval',
    token: 17,
  };
  expect(parseViewState(formatViewState(view))).toEqual(view);
});

test('nonsense falls back member by member', () => {
  const view = parseViewState(
    '?layer=-4&smooth=7&step=0&agg=sum&llock=-1&tlock=x&row=1.5&head=x&stat=mode&over=all&runa=5F0C&runb=..&stepb=0&token=-1&point=QKV',
  );
  expect(view).toEqual({ ...kDefaultView, point: 'QKV' });
});
