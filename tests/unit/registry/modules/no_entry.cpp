// A library that is no module.
extern "C" int foretoken_something_else() { return 0; }
