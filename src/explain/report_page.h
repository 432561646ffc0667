// The page of a report, web/dist/page.html, as it was when the library was built.
#pragma once

#include <string_view>

namespace qkv::inline explaining {

// Has the marks <!--qkv:title-->, <!--qkv:report--> and <!--qkv:data--> once each.
std::string_view report_page();

}  // namespace qkv::inline explaining
