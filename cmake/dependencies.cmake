# The libraries that qkv stands on: those that are installed, else those of third_party/, which are compiled into it.
# What is installed is linked, and named by an installed static qkv: packages of CMake and of pkg-config.
set(QKV_LINKED_PACKAGES "")
set(QKV_LINKED_PC "")
set(QKV_LINKED "")
set(QKV_INSIDE "")  # headers, and sources of third_party
set(QKV_THIRD_PARTY "")  # its folders that are used

# FOLDER: its name in third_party; further arguments are the versions that will do.
macro(qkv_find package folder)
  find_package(${package} ${ARGN} QUIET)
  if(NOT ${package}_FOUND)
    if(NOT EXISTS "${PROJECT_SOURCE_DIR}/third_party/${folder}")
      message(FATAL_ERROR "${package} ${ARGN} is not installed. CONTRIBUTING.md names the packages of Debian; the source "
                          "distribution has the sources of all")
    endif()
    list(APPEND QKV_THIRD_PARTY ${folder})
  endif()
endmacro()

macro(qkv_link package folder target pc)
  qkv_find(${package} ${folder} ${ARGN})
  if(${package}_FOUND)
    list(APPEND QKV_LINKED_PACKAGES ${package})
    string(APPEND QKV_LINKED_PC " ${pc}")
    list(APPEND QKV_LINKED ${target})
  else()
    list(APPEND QKV_INSIDE ${target})
  endif()
endmacro()

list(APPEND CMAKE_MODULE_PATH "${PROJECT_SOURCE_DIR}/cmake")
find_package(Threads REQUIRED)
qkv_link(hwy hwy hwy::hwy libhwy 1.0.3...<1.1)  # later ones have other CPU targets
qkv_link(utf8proc utf8proc utf8proc::utf8proc libutf8proc)
qkv_link(ZLIB zlib ZLIB::ZLIB zlib)
if(QKV_FMT_HEADER_ONLY)
  qkv_find(fmt fmt)
  list(APPEND QKV_INSIDE fmt::fmt-header-only)
else()
  qkv_link(fmt fmt fmt::fmt fmt)
endif()
qkv_find(nlohmann_json json)
list(APPEND QKV_INSIDE nlohmann_json::nlohmann_json)
if(QKV_PICTURES)
  qkv_link(PNG png PNG::PNG libpng)
  qkv_link(JPEG jpeg JPEG::JPEG libjpeg)
  if(JPEG_FOUND)
    find_path(JPEG_CONFIG_INCLUDE_DIR jconfig.h REQUIRED)  # Debian has it apart, in a folder of the architecture
    target_include_directories(JPEG::JPEG INTERFACE ${JPEG_CONFIG_INCLUDE_DIR})
  endif()
endif()
if(QKV_BUILD_PROGRAM)
  qkv_find(CLI11 cli11)
endif()
if(QKV_ZIG)
  set(QKV_THIRD_PARTY hwy utf8proc zlib fmt json png jpeg cli11)  # the code of all, whoever gives the headers
endif()
if(QKV_THIRD_PARTY)
  message(STATUS "Compiled from third_party: ${QKV_THIRD_PARTY}")
  enable_language(C)
  add_subdirectory(third_party)
endif()
