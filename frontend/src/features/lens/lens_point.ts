/** The lens of the layers' outputs; the names of the lenses of other points begin alike. */
export const kLensPoint = 'LogitLens';
