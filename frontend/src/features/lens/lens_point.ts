/** The lens of the layers' outputs. The names of the other lenses begin with this name. */
export const kLensPoint = 'LogitLens';
