import { finite } from '../core/store/series_store';
import type { CompressorFacts, PlanEntry, ProjectionSeries } from '../protocol/messages';

/** The mean over the prompts at the run's start. */
export interface Baseline {
  readonly mean: number;
  /** The standard deviation over the prompts; null if it is not known, as of one prompt. */
  readonly deviation: number | null;
}

/** The baselines of projections, by series and layer. */
export class BaselineStore {
  private readonly known = new Map<string, Map<number, Baseline>>();

  /** Null if it is not known. */
  of(entry: PlanEntry, vector: string, layer: number): Baseline | null {
    const { point, prompts = '', mean_over = '', compressor } = entry;
    const series = { point, vector, prompts, mean_over, scale: scaleOf(compressor) };
    return this.known.get(keyOf(series))?.get(layer) ?? null;
  }

  /** An event may have only some layers of a series; the others stay. */
  add(series: ProjectionSeries): void {
    const key = keyOf(series);
    const layers = this.known.get(key) ?? new Map<number, Baseline>();
    series.layers.forEach((layer, at) => {
      const mean = finite(series.baseline[at]);
      const deviation = finite(series.deviation?.[at]);
      if (mean === null) layers.delete(layer);
      else layers.set(layer, { mean, deviation });
    });
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
