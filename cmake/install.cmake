# What an installation holds, in four components: runtime (the shared library), development (headers, both libraries,
# find_package and pkg-config), program (with its manual pages and completions), and model.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# A part of the build is installed, too: what is missing of a component is built first.
function(build_before_installing component target file)
  install(CODE "if(NOT EXISTS \"${file}\")
  execute_process(COMMAND \"${CMAKE_COMMAND}\" --build \"${PROJECT_BINARY_DIR}\" --target ${target} COMMAND_ERROR_IS_FATAL ANY)
endif()" COMPONENT ${component})
endfunction()
build_before_installing(development qkv "$<TARGET_FILE:qkv>")
build_before_installing(development qkv_shared "$<TARGET_FILE:qkv_shared>")
build_before_installing(runtime qkv_shared "$<TARGET_FILE:qkv_shared>")

install(TARGETS qkv EXPORT qkv-static ARCHIVE COMPONENT development INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS qkv_shared EXPORT qkv-shared LIBRARY COMPONENT runtime NAMELINK_COMPONENT development
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/qkv TYPE INCLUDE COMPONENT development)

set(QKV_CMAKE_FOLDER ${CMAKE_INSTALL_LIBDIR}/cmake/qkv)
foreach(kind static shared)
  install(EXPORT qkv-${kind} NAMESPACE qkv:: DESTINATION ${QKV_CMAKE_FOLDER} COMPONENT development)
endforeach()
configure_package_config_file(cmake/qkv-config.cmake.in qkv-config.cmake INSTALL_DESTINATION ${QKV_CMAKE_FOLDER}
                              NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(qkv-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/qkv-config.cmake" "${CMAKE_CURRENT_BINARY_DIR}/qkv-config-version.cmake"
              cmake/Findutf8proc.cmake DESTINATION ${QKV_CMAKE_FOLDER} COMPONENT development)

# Places are relative to the file's own: --prefix and DESTDIR may move it.
set(QKV_PC_FOLDER ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH QKV_PC_INCLUDEDIR ${QKV_PC_FOLDER} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
if(NOT QKV_CXX_RUNTIME)
  set(QKV_CXX_RUNTIME stdc++)
endif()
configure_file(cmake/qkv.pc.in qkv.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/qkv.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

if(QKV_BUILD_PROGRAM)
  build_before_installing(program qkv_app "$<TARGET_FILE:qkv_app>")
  install(TARGETS qkv_app RUNTIME COMPONENT program)
  install(FILES data/phrases.es.tsv DESTINATION ${CMAKE_INSTALL_DATADIR}/qkv COMPONENT program)
  install(DIRECTORY models/en-es models/verses DESTINATION ${CMAKE_INSTALL_DATADIR}/qkv/models COMPONENT model)
endif()
# The program prints its manual pages and completions; that of another machine needs an emulator to.
if(QKV_BUILD_PROGRAM AND (NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR))
  set(QKV_PAGES ${CMAKE_CURRENT_BINARY_DIR}/pages)
  add_custom_command(
    OUTPUT ${QKV_PAGES}/qkv.bash
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${QKV_PAGES}
    COMMAND qkv_app manual --out ${QKV_PAGES}/man1
    COMMAND gzip -9nr ${QKV_PAGES}/man1
    COMMAND qkv_app completions fish > ${QKV_PAGES}/qkv.fish
    COMMAND qkv_app completions zsh > ${QKV_PAGES}/_qkv
    COMMAND qkv_app completions bash > ${QKV_PAGES}/qkv.bash
    DEPENDS qkv_app
    VERBATIM)
  add_custom_target(qkv_pages ALL DEPENDS ${QKV_PAGES}/qkv.bash)
  foreach(component program zsh)
    build_before_installing(${component} qkv_pages ${QKV_PAGES}/qkv.bash)
  endforeach()
  install(DIRECTORY ${QKV_PAGES}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT program)
  install(FILES ${QKV_PAGES}/qkv.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME qkv
          COMPONENT program)
  install(FILES ${QKV_PAGES}/qkv.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT program)
  install(FILES ${QKV_PAGES}/_qkv DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT zsh)
endif()
