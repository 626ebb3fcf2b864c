import type { RunFacts } from './messages';

type Mesh = RunFacts['mesh'];

export const rankCount = (mesh: Mesh): number =>
  mesh.tensor * (mesh.context ?? 1) * mesh.pipeline * mesh.data;

/** "TP 2 · PP 1 · DP 4", with context parallelism "TP 2 · CP 2 · PP 1 · DP 4". */
export function meshText(mesh: Mesh): string {
  const contexts = mesh.context === undefined ? '' : ` · CP ${mesh.context}`;
  return `TP ${mesh.tensor}${contexts} · PP ${mesh.pipeline} · DP ${mesh.data}`;
}
