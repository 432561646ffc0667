// The program.
#include "commands.h"

int main(int argc, char** argv) { return qkv::app::run_program(argc, argv, qkv::app::add_commands); }
