# What an installation holds, in four components: runtime (the shared library), development (headers, both libraries,
# find_package and pkg-config), program, and model.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

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
configure_file(cmake/qkv.pc.in qkv.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/qkv.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

if(QKV_BUILD_PROGRAM)
  install(TARGETS qkv_app RUNTIME COMPONENT program)
  install(FILES data/phrases.es.tsv DESTINATION ${CMAKE_INSTALL_DATADIR}/qkv COMPONENT program)
  install(DIRECTORY models/en-es DESTINATION ${CMAKE_INSTALL_DATADIR}/qkv/models COMPONENT model)
endif()
