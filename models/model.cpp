#include "minfer/model.h"

#include <fmt/format.h>

#include <algorithm>

namespace minfer {

Model::Model(std::shared_ptr<const GgufFile> file) : file_(std::move(file)) {
  const auto tensors = file_->tensors();
  weights_.reserve(tensors.size());
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    ModelWeight weight{.name = tensors[i].name, .type = tensors[i].type->id, .ne = {}, .tensor = i};
    std::copy(tensors[i].ne, tensors[i].ne + 4, weight.ne);
    weights_.push_back(std::move(weight));
  }
}

Result<Graph> Model::build(const GraphParams& params) const {
  GraphBuilder builder(params, weights_, kv_layers_);
  build_graph(builder);
  auto graph = builder.finish();
  if (!graph)
    graph.error().where = fmt::format("{}: {}", file_->path().string(), graph.error().where);
  return graph;
}

}  // namespace minfer
