// The command-line tool.
#include "apps/foretoken/cli.h"

int main(int argc, char** argv) { return foretoken::cli::run({argv + 1, argv + argc}); }
