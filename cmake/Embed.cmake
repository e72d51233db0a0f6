# crosscheck_embed(<target> <symbol-prefix> <file>...)
#
# Puts the bytes of each file into <target> with .incbin. For `migrations/0001_base.sql` and prefix `migration`
# the generated header <crosscheck_embed/<prefix>.h> has
#   std::span<const Embedded> <prefix>_files();   // {name: path relative to the part, text: its bytes}
function(crosscheck_embed target prefix)
  set(dir ${CMAKE_CURRENT_BINARY_DIR}/embed)
  set(assembly ".section .rodata\n")
  set(externs "")
  set(rows "")
  set(index 0)
  foreach(file IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE OUTPUT_VARIABLE path)
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE name)
    set(symbol crosscheck_embed_${prefix}_${index})
    string(APPEND assembly
      ".global ${symbol}\n.global ${symbol}_end\n.balign 16\n${symbol}:\n.incbin \"${path}\"\n${symbol}_end:\n.byte 0\n")
    string(APPEND externs "extern const char ${symbol}[];\nextern const char ${symbol}_end[];\n")
    string(APPEND rows "    {\"${name}\", {${symbol}, static_cast<std::size_t>(${symbol}_end - ${symbol})}},\n")
    list(APPEND paths ${path})
    math(EXPR index "${index} + 1")
  endforeach()
  string(APPEND assembly ".section .note.GNU-stack,\"\",@progbits\n")
  file(CONFIGURE OUTPUT ${dir}/${prefix}.S CONTENT "${assembly}" @ONLY)
  file(CONFIGURE OUTPUT ${dir}/crosscheck_embed/${prefix}.h @ONLY CONTENT
"#pragma once
#include <span>
#include <string_view>
namespace crosscheck::embed {
struct ${prefix}_file { std::string_view name; std::string_view text; };
std::span<const ${prefix}_file> ${prefix}_files();
}
")
  file(CONFIGURE OUTPUT ${dir}/${prefix}.cc @ONLY CONTENT
"#include \"crosscheck_embed/${prefix}.h\"
#include <cstddef>
extern \"C\" {
${externs}}
namespace crosscheck::embed {
std::span<const ${prefix}_file> ${prefix}_files() {
  static const ${prefix}_file files[] = {
${rows}  };
  return files;
}
}
")
  set_source_files_properties(${dir}/${prefix}.S PROPERTIES OBJECT_DEPENDS "${paths}")
  target_sources(${target} PRIVATE ${dir}/${prefix}.S ${dir}/${prefix}.cc)
  target_include_directories(${target} PRIVATE ${dir})
endfunction()
