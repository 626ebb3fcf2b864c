import { historyArrays, layerAxis, vector } from '../../core/registry/arrays';
import type { ExportArray, ExportAxis, FrameFiles } from '../../core/registry/files';
import { kStatNames, type StatsFrame } from './frame';

export const kStatsFiles: FrameFiles<StatsFrame> = {
  arraysOf: (frame) => [
    table('stats', frame.table, layerAxis(frame)),
    vector('histogram', 'numbers in each bin', frame.bins, 'bin'),
    ...historyArrays(frame.history, layerAxis(frame)),
  ],
  pairArraysOf: (pair) => [
    table('stats_a', pair.tables.a, layerAxis(pair)),
    table('stats_b', pair.tables.b, layerAxis(pair)),
    table('stats_difference', pair.tables.difference, layerAxis(pair)),
    vector('histogram_a', 'numbers in each bin of A', pair.a.bins, 'bin'),
    vector('histogram_b', 'numbers in each bin of B', pair.b.bins, 'bin'),
  ],
  factsOf: () => ({ steps: 'all steps that the page keeps' }),
};

function table(name: string, data: Float64Array, layers: ExportAxis): ExportArray {
  const axes = [layers, { name: 'statistic', labels: kStatNames }];
  const shape = [layers.labels.length, kStatNames.length];
  return { name, text: 'of all numbers of a layer', axes, shape, data: data.slice() };
}
