import { render } from 'svelte/server';
import { expect, test } from 'vitest';
import { PlanBook } from '../../core/session/plan_book.svelte';
import type { Session } from '../../core/session/session';
import { defaultView } from '../../core/session/url_state';
import { RingStore } from '../../core/store/ring_store';
import { frameOf } from '../../core/store/test_query';
import { makeRecord } from '../../core/store/test_records';
import type { PlanEntry } from '../../protocol/messages';
import TokenColors from './token_colors.svelte';

/** The text of a prompt, coloured by the projections of an entry's only record. */
function shown(entry: Partial<PlanEntry>, values: readonly number[]): string {
  const plans = new PlanBook();
  plans.add({ number: 1, entries: [{ point: 'HiddenStates', prompts: 'probes', ...entry }] });
  const store = new RingStore(1e6);
  const header = { compressor: 4, promptSet: 1, phase: 1, shape: [1, values.length, 1] };
  store.insert(makeRecord(header, Float32Array.from(values)));
  const frame = frameOf(store, 'projection', { form: 'projection', promptSet: 1 });
  const session = {
    ...{ plans, run: null, otherRuns: [], view: defaultView(), theme: 'dark', hoverColumn: null },
    ...{ tokenizer: 'byte', point: { prompts: ['Once'] } },
  } as unknown as Session;
  const about = { point: 'HiddenStates', vector: 'evil', quantity: 'activation along evil' };
  const { body } = render(TokenColors, { props: { session, frame, ...about } });
  return body.replaceAll(/<!--.*?-->/gs, '').replaceAll(/\s+/g, ' ');
}

test('each token has a colour', () => {
  const html = shown({}, [1, -1]);
  expect(html.match(/data-col=/g)).toHaveLength(2);
  expect(html).toContain('coloured by L1 on evil');
});

test('the mean over a prompt is a number, and no token has a colour', () => {
  for (const [mean, words] of [
    ['prompt', 'Mean over the tokens of the prompt'],
    ['last-prompt', 'Last token of the prompt'],
    ['response', 'Mean over the tokens of the response'],
  ]) {
    const html = shown({ mean_over: mean }, [0.25]);
    expect(html).toContain(`${words}: <b>0.2500</b>`);
    expect(html).toContain('no token is coloured');
    expect(html).not.toContain('data-col');
    expect(html).not.toContain('coloured by');
  }
  expect(shown({ mean_over: 'response' }, [Number.NaN])).toContain('<b>NaN</b>');
});
