import { chunk } from '../../core/registry/chunks';
import { type Command, showCommand } from '../../core/registry/commands';
import { type Feature, frameView } from '../../core/registry/feature';
import type { Session } from '../../core/session/session';
import { pairOf } from '../../core/store/frame_pair';
import type { AttentionFrame } from './frame';
import HeadChoice from './head_choice.svelte';
import ShadeChoice from './shade_choice.svelte';
import { kUrl } from './url';

/** Attention of every head: queries × keys. The compressors of `maps` make its records. */
export const kAttention: Feature = {
  url: kUrl,
  viewTools: [ShadeChoice],
  // Single keys without tiles, in 8 bits: the maps of all heads and layers are large.
  traceOf: ({ dims }) =>
    dims.length === 4 ? { every: 10, dtype: 'u8', compressor: { kind: 'none' } } : undefined,
  plan: async () => (await import('./plan')).kPlan,
  views: [
    frameView<AttentionFrame>({
      kind: 'attention',
      choice: HeadChoice,
      hasOwnScale: true,
      panel: { later: chunk(() => import('./attention_map.svelte')) },
      files: async () => (await import('./files')).kAttentionFiles,
      compare: {
        shapeOf: ({ map }) => `${map.rows} queries × ${map.cols} keys`,
        obstacle: (a, b) =>
          a.head === b.head
            ? undefined
            : `A has ${a.heads} heads, B has ${b.heads}: choose a head that both have.`,
        pairOf: (base) => ({ ...base, kind: 'attention', maps: pairOf(base.a.map, base.b.map) }),
        panel: { later: chunk(() => import('./compare_attention.svelte')) },
      },
    }),
  ],
  commandsOf,
};

function commandsOf(session: Session): readonly Command[] {
  const { frame } = session;
  const heads = frame?.kind === 'attention' ? frame.heads : 0;
  return Array.from({ length: heads }, (_, head) =>
    showCommand(session, `head-${head}`, `Head ${head}`, { head }),
  );
}
