import { expect, test } from 'vitest';
import { RafScheduler } from './raf_scheduler';

function manual(): { scheduler: RafScheduler; frame: () => void; asked: () => number } {
  const queue: (() => void)[] = [];
  const scheduler = new RafScheduler((callback) => queue.push(callback));
  return { scheduler, frame: () => queue.shift()?.(), asked: () => queue.length };
}

test('many requests make one frame and one drawing', () => {
  const { scheduler, frame, asked } = manual();
  let drawn = 0;
  const draw = (): void => void (drawn += 1);
  scheduler.addDrawer(draw);
  scheduler.redraw(draw);
  scheduler.redraw();
  expect(asked()).toBe(1);
  frame();
  expect(drawn).toBe(1);
});

test('only who asked is drawn, and nobody after dispose', () => {
  const { scheduler, frame } = manual();
  const drawn: string[] = [];
  const a = (): void => void drawn.push('a');
  const b = (): void => void drawn.push('b');
  scheduler.addDrawer(a);
  const second = scheduler.addDrawer(b);
  frame();
  scheduler.redraw(b);
  frame();
  second.dispose();
  scheduler.redraw(b);
  frame();
  expect(drawn).toEqual(['a', 'b', 'b']);
});

test('settled resolves after the drawing', async () => {
  const { scheduler, frame } = manual();
  let drawn = false;
  scheduler.addDrawer(() => (drawn = true));
  const settled = scheduler.settled();
  frame();
  await settled;
  expect(drawn).toBe(true);
});
