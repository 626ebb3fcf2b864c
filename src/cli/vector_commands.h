#pragma once

/// The commands of `tensor-tracer vector`: docs/vectors.md. `argv[0]` is the command's name. Each
/// returns an exit code of docs/errors.md.
namespace tt::cli {

/// `extract`: makes vectors from two sides of texts. On all ranks of the launcher.
int run_vector_extract(int argc, const char* const* argv);
/// `info`: prints shape, norms and provenance of the vectors in a file.
int run_vector_info(int argc, const char* const* argv);
/// `compare`: prints the cosines of vectors by row.
int run_vector_compare(int argc, const char* const* argv);
/// `merge`: writes the vectors of several files into one.
int run_vector_merge(int argc, const char* const* argv);

/// `score`: ranks training texts by their projection on a vector. On all ranks of the launcher.
int run_vector_score(int argc, const char* const* argv);

}  // namespace tt::cli
