import { expect, test } from 'vitest';
import {
  fitsAddress,
  formatViewState,
  kDefaultView,
  parseViewState,
  type ViewState,
} from './url_state';

test('the default view needs no query', () => {
  expect(formatViewState(kDefaultView, kDefaultView)).toBe('');
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
    plan: 'HiddenStates.l1-4.t32*MLP1.m=data_2Emean_28_2D1_29',
    programName: 'steer & co',
    program: 'a = param(1)\n\n  layers[2].output += a * vector("böse")[2] # 50 %\n',
    logX: true,
    logRate: true,
    logSpeed: true,
    events: false,
    zoom: [10.5, 200],
    hold: 130,
    layout: 'over',
    ranges: 'own',
    ridge: 'layers',
    threshold: -0.25,
    alarmTarget: '3.0.1.mean.eval.HiddenStates · projection',
    runA: '5f0c12ab34cd56ef',
    runB: '00000000000000aa',
    stepB: 40,
    phaseB: 'eval',
    token: 17,
    otherRuns: ['5f0c00000000abcd', '00000000000000b2'],
  };
  expect(parseViewState(formatViewState(view, kDefaultView))).toEqual(view);
});

test('a draft that no hub would read is left out', () => {
  const plan = 'HiddenStates*'.repeat(1000);
  expect(formatViewState({ ...kDefaultView, plan, layer: 2 }, kDefaultView)).toBe('?layer=2');
});

test('a program that no hub would read is left out, and a plan beside it leaves it less room', () => {
  const program = 'a = 1\n'.repeat(450);
  const view = { ...kDefaultView, program, layer: 2 };
  expect(fitsAddress(view)).toBe(true);
  expect(parseViewState(formatViewState(view, kDefaultView))).toEqual(view);
  const plan = 'x'.repeat(3000);
  expect(formatViewState({ ...view, plan }, kDefaultView)).toBe(`?layer=2&plan=${plan}`);
  expect(formatViewState({ ...view, program: program.repeat(2) }, kDefaultView)).toBe('?layer=2');
});

test('nonsense falls back member by member', () => {
  const view = parseViewState(
    '?layer=-4&smooth=7&step=0&agg=sum&llock=-1&tlock=x&row=1.5&head=x&stat=mode&over=all' +
      '&point=QKV&zoom=9-3&hold=x&events=2&maps=2&ranges=all&ridge=x&thr=high' +
      '&runa=5F0C&runb=..&stepb=0&token=-1&runs=5F0C.x',
  );
  expect(view).toEqual({ ...kDefaultView, point: 'QKV' });
});

test('what the address does not tell is as preferred', () => {
  const preferred = { ...kDefaultView, smoothing: 0.5, logX: true, logLoss: true, events: false };
  expect(parseViewState('', preferred)).toEqual(preferred);
  const told = parseViewState('?smooth=0.9&logx=0&logloss=1&events=1', preferred);
  expect(told).toEqual({ ...preferred, smoothing: 0.9, logX: false, events: true });
});

test("a link shows the sender's curves, whatever the reader prefers", () => {
  const preferred = { ...kDefaultView, smoothing: 0.3, logX: true, events: false };
  const link = formatViewState(kDefaultView, null);
  expect(parseViewState(link, preferred)).toEqual(kDefaultView);
});

test('the address tells what is not as preferred, so that a reload shows it again', () => {
  const preferred = { ...kDefaultView, smoothing: 0.3, logX: true };
  const address = formatViewState(kDefaultView, preferred);
  expect(address).toBe('?smooth=0.8&logx=0');
  expect(parseViewState(address, preferred)).toEqual(kDefaultView);
  expect(formatViewState(preferred, preferred)).toBe('?smooth=0.3&logx=1');
});
