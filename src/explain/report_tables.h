// What a report holds as HTML tables, for those who read it without scripts.
#pragma once

#include <string>

#include "qkv/explain/attention_maps.h"
#include "qkv/explain/explain.h"
#include "qkv/explain/explain_model.h"
#include "qkv/explain/picture_attention.h"
#include "qkv/explain/token_measures.h"

namespace qkv::inline explaining {

std::string report_tables(const Explanation& explanation);
std::string report_tables(const HeadSurvey& survey);
std::string report_tables(const HeadTrace& trace);
std::string report_tables(const TokenMeasures& measures);
std::string report_tables(const PictureAttention& seen);
std::string report_tables(const AttentionMaps& maps);

}  // namespace qkv::inline explaining
