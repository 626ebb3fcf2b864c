import { render } from 'svelte/server';
import { expect, test } from 'vitest';
import type { Session } from '../../core/session/session';
import { type AlarmCurve, draftOf } from '../../ui/alarms/alarm_draft';
import AlarmForm from './alarm_form.svelte';

const kSession = {
  ...{ run: null, watched: [], control: { waits: () => false } },
} as unknown as Session;

/** The labels of the form's fields. */
function labels(curve: AlarmCurve): readonly string[] {
  const { body } = render(AlarmForm, { props: { session: kSession, draft: draftOf(curve) } });
  const html = body.replaceAll(/<!--.*?-->/gs, '');
  return [...html.matchAll(/<label[^>]*>([^<]*)/g)].map(([, text]) => text.trim());
}

test('a projection of tokens has a choice of tokens; a mean over a prompt has none', () => {
  const evil = { point: 'HiddenStates', vector: 'evil', prompts: 'probes' };
  expect(labels(evil)).toContain('Tokens');
  const mean = labels({ ...evil, mean_over: 'last-prompt' });
  expect(mean).toContain('Layers');
  expect(mean).not.toContain('Tokens');
});
