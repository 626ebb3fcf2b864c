import { expect, test } from 'vitest';
import { exchangeToken, socketUrl, tokenOf } from './auth';

test('the token stands in the fragment', () => {
  expect(tokenOf('#token=abc-_9')).toBe('abc-_9');
  expect(tokenOf('#')).toBeUndefined();
  expect(tokenOf('#token=')).toBeUndefined();
});

test("the socket is at the page's own address", () => {
  expect(socketUrl('http://127.0.0.1:8765/?layer=2#x')).toBe('ws://127.0.0.1:8765/ws');
  expect(socketUrl('https://host/run/')).toBe('wss://host/run/ws');
});

test('outcomes of the exchange are told apart', async () => {
  const answering =
    (status: number): typeof fetch =>
    () =>
      Promise.resolve(new Response(null, { status }));
  expect(await exchangeToken('t', answering(204))).toBe('ok');
  expect(await exchangeToken('t', answering(401))).toBe('refused');
  expect(await exchangeToken('t', () => Promise.reject(new TypeError()))).toBe('unreachable');
});
