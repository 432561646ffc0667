# Debian packages of an installation in /usr (scripts/packages): libqkv0.N, the shared library; libqkv-dev, what a project
# needs that uses it; qkv, the program with its model.
set(library libqkv${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(QKV_DEBIAN_VERSION ${PROJECT_VERSION}-1)
set(QKV_MAINTAINER "qkv maintainers <maintainers@qkv.example>" CACHE STRING "Who answers for the Debian packages")
string(TIMESTAMP QKV_DEBIAN_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC)  # SOURCE_DATE_EPOCH, if set

# What Debian demands of each package beside what is installed elsewhere.
set(documents ${CMAKE_CURRENT_BINARY_DIR}/debian)
configure_file(cmake/debian/changelog.in ${documents}/changelog.Debian @ONLY)
configure_file(CHANGELOG.md ${documents}/changelog COPYONLY)
foreach(name changelog changelog.Debian)
  execute_process(COMMAND gzip -9n --keep --force ${documents}/${name} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
foreach(package ${library} libqkv-dev qkv)
  install(FILES cmake/debian/copyright ${documents}/changelog.gz ${documents}/changelog.Debian.gz
          DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} COMPONENT debian-${package} EXCLUDE_FROM_ALL)
endforeach()
install(FILES ${QKV_PAGES}/_qkv DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT debian-qkv
        EXCLUDE_FROM_ALL)  # Debian's zsh does not look into site-functions

set(CPACK_GENERATOR DEB)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
    WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL runtime debian-${library} development debian-libqkv-dev program model debian-qkv)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER ${QKV_MAINTAINER})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SOURCE qkv)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY >=)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own
string(CONCAT about "softmax(q k^T / sqrt(d)) v, exactly, in one fused pass over the keys, on\n"
              "ordinary CPUs, and the Transformers built on it.\n")

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME ${library})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/cmake/debian/triggers)
set(CPACK_DEBIAN_LIBRARY_DESCRIPTION "attention on CPUs, shared library\n${about}")

# The static library is linked with these.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libqkv-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
string(CONCAT CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${library} (= ${QKV_DEBIAN_VERSION}), libfmt-dev, libhwy-dev, "
              "libjpeg62-turbo-dev | libjpeg-dev, libpng-dev, libutf8proc-dev, zlib1g-dev")
string(CONCAT CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "attention on CPUs, headers and static library\n${about}"
              "C++20 headers, the static library, and what find_package and pkg-config\nread.")

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME qkv)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
string(CONCAT CPACK_DEBIAN_PROGRAM_DESCRIPTION "attention on CPUs, computed fast and explained\n${about}"
              "The program, a model that translates English to Spanish, and one that writes\nverses.")

include(CPack)
foreach(component runtime debian-${library})
  cpack_add_component(${component} GROUP library)
endforeach()
foreach(component development debian-libqkv-dev)
  cpack_add_component(${component} GROUP development)
endforeach()
foreach(component program model debian-qkv)
  cpack_add_component(${component} GROUP program)
endforeach()
