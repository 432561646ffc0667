# QKV_TARGETS: which CPU targets the kernels are compiled for. Their files alone know of it, so that a build of one target
# becomes one of all by compiling these again.
set(QKV_ONLY_TARGET "")
set(QKV_TILES_DEFINITION "")
if(QKV_TARGETS STREQUAL native)
  try_run(QKV_NATIVE_RUNS QKV_NATIVE_BUILDS
          SOURCES "${CMAKE_CURRENT_LIST_DIR}/native_target.cc" "${PROJECT_SOURCE_DIR}/src/simd/amx_tiles.cc" ${QKV_HWY_SOURCES}
          CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${PROJECT_SOURCE_DIR}/src" LINK_LIBRARIES hwy::hwy CXX_STANDARD 20
          RUN_OUTPUT_VARIABLE QKV_TILES_DEFINITION)
  if(NOT QKV_NATIVE_RUNS EQUAL 0)
    message(FATAL_ERROR "QKV_TARGETS=native: this machine does not run what it builds; name a target")
  endif()
  list(POP_FRONT QKV_TILES_DEFINITION QKV_ONLY_TARGET)
elseif(NOT QKV_TARGETS STREQUAL all)
  set(known "avx512=HWY_AVX3" "avx2=HWY_AVX2" "sse4=HWY_SSE4" "neon=HWY_NEON")
  list(FILTER known INCLUDE REGEX "^${QKV_TARGETS}=")
  if(NOT known)
    message(FATAL_ERROR "QKV_TARGETS is ${QKV_TARGETS}; it must be all, native, avx512, avx2, sse4 or neon")
  endif()
  string(REGEX REPLACE ".*=" "" QKV_ONLY_TARGET "${known}")
endif()
if(QKV_ONLY_TARGET)
  set_property(SOURCE ${QKV_KERNELS} APPEND PROPERTY COMPILE_DEFINITIONS "QKV_ONLY_TARGET=${QKV_ONLY_TARGET}")
  set_property(SOURCE src/simd/amx_tiles.cc src/attention/forward/bf16_kernel.cc APPEND PROPERTY COMPILE_DEFINITIONS
                                                                                 ${QKV_TILES_DEFINITION})
endif()
