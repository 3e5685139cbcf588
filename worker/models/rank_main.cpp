// trainyard-rank: one rank of a training, with the built-in models. trainyard-worker starts it.
#include "worker/models/fashion_cnn.hpp"
#include "worker/train/model_registry.hpp"
#include "worker/train/rank_program.hpp"

int main() {
  trainyard::train::ModelRegistry models;
  models.add<trainyard::models::FashionCNN>("fashion_cnn");
  trainyard::train::run_rank(models);
}
