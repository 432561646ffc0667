# Toolchain: zig's clang for static programs on Linux with musl (scripts/static). ZIG, the program, and
# QKV_ZIG_TARGET, its options for the machine, are in the environment.
set(CMAKE_SYSTEM_NAME Linux)
string(REGEX MATCH "x86_64|aarch64" CMAKE_SYSTEM_PROCESSOR "$ENV{QKV_ZIG_TARGET}")
set(CMAKE_C_COMPILER $ENV{ZIG} cc)
set(CMAKE_CXX_COMPILER $ENV{ZIG} c++)
set(CMAKE_AR ${CMAKE_CURRENT_LIST_DIR}/../web/engine/ar)
set(CMAKE_RANLIB true) # zig's ar has made the index
foreach(language C CXX)
  set(CMAKE_${language}_FLAGS_INIT "$ENV{QKV_ZIG_TARGET} -g0")
endforeach()
set(QKV_CXX_RUNTIME c++)
# What is needed is compiled from third_party; what is installed here is of another C library.
foreach(package hwy fmt nlohmann_json utf8proc CLI11 ZLIB PNG JPEG)
  set(CMAKE_DISABLE_FIND_PACKAGE_${package} ON)
endforeach()
