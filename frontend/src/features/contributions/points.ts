/** A measure of a block's contribution to the residual stream. */
interface Contribution {
  readonly title: string;
  readonly unit: string;
}

const kNorm = 'Euclidean norm, mean over tokens';
const kRatio = "added norm / stream's norm, mean over tokens";

/** The keys are names of points. */
export const kContributionPoints: Readonly<Record<string, Contribution>> = {
  'attention.contribution': { title: 'Attention, norm', unit: kNorm },
  'mlp.contribution': { title: 'MLP, norm', unit: kNorm },
  'attention.contribution_ratio': { title: 'Attention, ratio', unit: kRatio },
  'mlp.contribution_ratio': { title: 'MLP, ratio', unit: kRatio },
};

export const kContributionNames: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(kContributionPoints).map(([point, { title }]) => [point, title]),
);
