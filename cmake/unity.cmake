# Small files of a folder are compiled together: what they all include is read once. Not where several files use one
# name, each for its own: the models' kinds, the passes of the reference.
function(compile_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  set(count 0)
  foreach(source ${ARGN})
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(GET folder FILENAME folder)
    math(EXPR group "${count} / 8")
    math(EXPR count "${count} + 1")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${group})
  endforeach()
endfunction()

# The folders of the library.
function(compile_library_together target src)
  foreach(folder core io text layers/basic layers/convolution layers/heads layers/recurrent layers/stack decode train pipelines explain compare)
    file(GLOB sources CONFIGURE_DEPENDS ${src}/${folder}/*.cc)
    compile_together(${target} ${sources})
  endforeach()
  # The C headers of these define macros and global names.
  set_source_files_properties(${src}/io/png.cc ${src}/io/jpeg.cc ${src}/explain/deflate.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
