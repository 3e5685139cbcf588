// trainyard-rank: one rank of a training, with the built-in models. trainyard-worker starts it.
#include <trainyard/program.hpp>

#include "worker/models/fashion_cnn.hpp"

int main() {
  trainyard::Models models;
  models.add<trainyard::models::FashionCNN>("fashion_cnn");
  trainyard::run_rank(models);
}
