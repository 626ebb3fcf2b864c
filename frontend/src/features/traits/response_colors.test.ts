import { expect, test } from 'vitest';
import type { Session } from '../../core/session/session';
import { defaultView } from '../../core/session/url_state';
import { watchedEntries } from '../../core/session/watched';
import type { ViewQuery } from '../../core/store/frames';
import { promptAnswerSchema } from '../../protocol/prompts';
import { runSchema } from '../../protocol/messages';
import { kResponseSet, ResponseColors } from './response_colors.svelte';

const kProjection = { kind: 'projection', vectors: ['evil'] };

interface Sent {
  asked: unknown;
  kept: number;
  query: ViewQuery | null;
}

function stage(): { colors: ResponseColors; sent: Sent; refuse: () => void } {
  const run = runSchema(
    {
      ...{ id: '5f0c', name: 'demo', mesh: { tensor: 1, pipeline: 1, data: 1 }, vectors: ['evil'] },
      model: {
        ...{ num_layers: 2, hidden_size: 8, num_attention_heads: 2, vocab_size: 9, seq_length: 9 },
      },
      points: [{ name: 'HiddenStates', flag: 7, first_layer: 1, last_layer: 2, features: 8 }],
      prompt_sets: [{ name: 'probes', prompts: ['Once'] }],
      plan: {
        number: 3,
        entries: [
          { point: 'InputTokens' },
          {
            ...{ point: 'HiddenStates', prompts: 'probes', rows: 0, every: 5 },
            compressor: kProjection,
          },
        ],
      },
    },
    'run',
  );
  const points = watchedEntries(run, run.plan ?? null);
  const sent: Sent = { asked: null, kept: 0, query: null };
  let refused = false;
  const session = {
    ...{ run, plan: run.plan, points, point: points[0], view: { ...defaultView(), layer: 2 } },
    control: {
      carryOut: (_: string, params: { plan: unknown }) => {
        sent.asked = params;
        if (refused) return Promise.resolve({ ok: false, error: { code: 'x', message: 'no' } });
        const answer = { step: 12, tokens: [1, 2, 3], plan: params.plan, records: { off: '' } };
        return Promise.resolve({ ok: true, value: promptAnswerSchema(answer, '') });
      },
    },
    link: {
      keep: (_: ArrayBuffer, set: number) => (sent.kept = set),
      whole: (query: ViewQuery) => {
        sent.query = query;
        return Promise.resolve({ empty: { reason: 'none' } });
      },
    },
  } as unknown as Session;
  return { colors: new ResponseColors(session), sent, refuse: () => void (refused = true) };
}

test('prompt and response run once, with the records of the shown entry', async () => {
  const { colors, sent } = stage();
  await colors.run('Once upon');
  expect(sent.asked).toEqual({
    text: 'Once upon',
    plan: {
      entries: [
        { point: 'InputTokens' },
        { point: 'HiddenStates', compressor: kProjection, layers: undefined, dtype: undefined },
      ],
    },
  });
  expect(sent.kept).toBe(kResponseSet);
  expect([colors.step, colors.isOf('Once upon'), colors.isOf('Once')]).toEqual([12, true, false]);
  await colors.show();
  const query = { entry: 1, promptSet: kResponseSet, lengths: [3], layer: 2, row: 0, phase: 1 };
  expect(sent.query).toMatchObject(query);
});

test('a refused run says why', async () => {
  const { colors, refuse } = stage();
  refuse();
  await colors.run('Once upon');
  expect(colors.error?.message).toBe('no');
  expect(colors.isOf('Once upon')).toBe(false);
});
