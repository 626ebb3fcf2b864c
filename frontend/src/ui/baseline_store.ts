import { finite } from '../core/store/series_store';
import type { CompressorFacts, PlanEntry, ProjectionSeries } from '../protocol/messages';

/** The baselines of projections, by series and layer. */
export class BaselineStore {
  private readonly known = new Map<string, Map<number, number | null>>();

  /** Null if it is not known. */
  of(entry: PlanEntry, vector: string, layer: number): number | null {
    const { point, prompts = '', mean_over = '', compressor } = entry;
    const series = { point, vector, prompts, mean_over, scale: scaleOf(compressor) };
    return finite(this.known.get(keyOf(series))?.get(layer));
  }

  /** An event may have only some layers of a series; the others stay. */
  add(series: ProjectionSeries): void {
    const key = keyOf(series);
    const layers = this.known.get(key) ?? new Map<number, number | null>();
    series.layers.forEach((layer, at) => layers.set(layer, series.baseline[at] ?? null));
    this.known.set(key, layers);
  }

  clear(): void {
    this.known.clear();
  }
}

type SeriesName = Pick<ProjectionSeries, 'point' | 'vector' | 'prompts' | 'mean_over' | 'scale'>;

function keyOf({ point, vector, prompts, mean_over, scale }: SeriesName): string {
  return JSON.stringify([point, vector, prompts, mean_over, scale]);
}

function scaleOf(compressor: CompressorFacts | undefined): string {
  if (compressor?.cosine === true) return 'cosine';
  return compressor?.normalize === false ? 'raw' : 'normalized';
}
