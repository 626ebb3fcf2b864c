import { expect, test } from 'vitest';
import { HubClient, type HubClientListener } from './hub_client';
import type { PipeListener } from './pipe';

const kSilent: HubClientListener = {
  onHello: () => {},
  onNotification: () => {},
  onRecords: () => {},
  onTaken: () => {},
  onRefused: () => {},
  onProblem: () => {},
  onClosed: () => {},
};

/** A client whose connection is open, and what it sends after the hello. */
function openClient(): { client: HubClient; sent: string[] } {
  const sent: string[] = [];
  let pipe: PipeListener | undefined;
  const client = new HubClient(
    (listener) => {
      pipe = listener;
      return { send: (text) => void sent.push(text), close: () => {} };
    },
    kSilent,
    'test',
  );
  pipe?.onOpen();
  sent.length = 0;
  return { client, sent };
}

test('a request that is too long for the hub is answered and not sent', async () => {
  const { client, sent } = openClient();
  const answer = await client.request('intervention.check', { program: 'ä'.repeat(33_000) });
  expect(sent).toEqual([]);
  expect(answer).toMatchObject({ ok: false, error: { code: 'too_large' } });
  void client.request('intervention.check', { program: 'ä'.repeat(32_000) });
  expect(sent).toHaveLength(1);
});

test('half a character is replaced, and whole ones stay', () => {
  const { client, sent } = openClient();
  void client.request('prompts.run', { text: 'a\ud800b 😀 \udc00' });
  expect(JSON.parse(sent[0])).toMatchObject({ params: { text: 'a\ufffdb 😀 \ufffd' } });
});
