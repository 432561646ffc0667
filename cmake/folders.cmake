# The folders of src/ as object libraries, and what is compiled together.

# From the foundation up: each may use those before it (scripts/check levels).
set(QKV_FOLDERS core io reference simd ops attention layers text models decode train pipelines c explain)
# What spends its time in the other folders compiles in two thirds of the time.
set(QKV_QUICK_FOLDERS train pipelines c explain)
set(QKV_QUICK_COMPILE $<$<CONFIG:Release>:-O1>$<$<CONFIG:Debug>:-O0>)

# TARGET GROUP SOURCE...: compiled as one file, so that what they all include is read once: in a third of the time. One name
# has one meaning in all of them.
function(compile_together target group)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP ${group})
endfunction()

# The sources of a folder that are compiled together. Not those that are compiled once per CPU target, nor those whose C
# headers define macros and global names; nor the passes of the reference, which use one name each for its own.
function(compile_folder_together target folder src)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${src}/${folder}/*.cc)
  list(REMOVE_ITEM sources ${QKV_KERNELS})
  list(FILTER sources EXCLUDE REGEX "/(png|jpeg|no_pictures|deflate)\\.cc$|/reference/")
  if(sources)
    compile_together(${target} ${folder} ${sources})
  endif()
endfunction()
